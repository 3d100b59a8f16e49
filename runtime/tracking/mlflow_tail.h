// What metrics.jsonl has that MLflow was not told, a batch at a time. The file is the memory of a
// server that is away: however long that lasts, no line waits anywhere else.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include <nlohmann/json.hpp>

#include "runtime/tracking/mlflow_state.h"

namespace lockstep::runtime {

struct MlflowBatch {
  nlohmann::json metrics = nlohmann::json::array();  // at most kMaxMlflowMetrics
  // What MLflowState says, and where the file goes on, once these are told.
  int64_t told_step = 0;
  int64_t told_evaluation = -1;
  int64_t end_byte = 0;
};

class MlflowTail {
 public:
  // When a line of a step was written, in ms since 1970.
  using TimeOf = std::function<int64_t(int64_t step)>;

  explicit MlflowTail(std::string path);

  // The next lines, those of `state` left out; without metrics if there are none. A line that is
  // not whole yet comes later. The same again until it was told().
  MlflowBatch next(const MlflowState& state, const TimeOf& time_of) const;
  // `batch` was told: goes on behind it, and says so in `state`.
  void told(const MlflowBatch& batch, MlflowState& state);

 private:
  const std::string path_;
  int64_t begin_byte_ = 0;
};

}  // namespace lockstep::runtime

#include "runtime/tracking/mlflow_tail.h"

#include <algorithm>
#include <fstream>
#include <utility>

#include "runtime/tracking/mlflow_batch.h"

namespace lockstep::runtime {

MlflowTail::MlflowTail(std::string path) : path_(std::move(path)) {}

MlflowBatch MlflowTail::next(const MlflowState& state, const TimeOf& time_of) const {
  MlflowBatch batch{.told_step = state.told_step,
                    .told_evaluation = state.told_evaluation,
                    .end_byte = begin_byte_};
  std::ifstream file(path_, std::ios::binary);
  file.seekg(begin_byte_);
  for (std::string text; std::getline(file, text) && !file.eof();) {
    const auto end_byte = batch.end_byte + static_cast<int64_t>(text.size()) + 1;
    MetricsLine line;
    if (read_metrics_line(text, line)) {
      int64_t& told = line.is_evaluation ? batch.told_evaluation : batch.told_step;
      if (line.step > told) {
        if (batch.metrics.size() + line.values.size() > kMaxMlflowMetrics) break;
        append_metrics(line, time_of(line.step), batch.metrics);
        told = line.step;
      }
    }
    batch.end_byte = end_byte;
  }
  return batch;
}

void MlflowTail::told(const MlflowBatch& batch, MlflowState& state) {
  begin_byte_ = batch.end_byte;
  state.told_step = batch.told_step;
  state.told_evaluation = batch.told_evaluation;
}

}  // namespace lockstep::runtime

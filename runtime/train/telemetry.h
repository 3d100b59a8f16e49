// Tells about finished steps: status board on every rank; metrics.jsonl, event files and the log on
// rank 0.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "runtime/common/log.h"
#include "runtime/tracking/mlflow_run.h"
#include "runtime/train/event_file.h"
#include "runtime/train/metrics_file.h"
#include "runtime/train/status_board.h"

namespace lockstep::runtime {

struct TelemetryOptions {
  int64_t log_every_steps = 10;
  int64_t total_steps = 0;
  StepCost cost;
};

// Where rank 0 writes; other ranks have none.
struct TelemetryFiles {
  std::optional<MetricsFile> metrics;
  std::optional<EventFile> events;              // TensorBoard's, if they are asked for
  std::shared_ptr<MlflowRun> mlflow = nullptr;  // is told of every line, if there is one
};

class Telemetry {
 public:
  // `board` must outlive this object.
  Telemetry(const TelemetryOptions& options, common::Log log, StatusBoard& board,
            TelemetryFiles files);

  // Logged are step 1, every log_every_steps-th and the last, whatever step a restart begins at.
  // Throws RunError(kOutputUnwritable) if a file cannot be written.
  void step_done(const StepStats& stats);
  // Throws as step_done().
  void evaluation_done(const Evaluation& evaluation);

 private:
  void add(const StepStats& stats);
  // What is to be told of the steps since the last line, whose sums begin anew.
  LoggedStep take(const StepStats& last);

  const TelemetryOptions options_;
  const common::Log log_;
  StatusBoard& board_;
  TelemetryFiles files_;
  // Sums over the steps since the last line.
  int64_t num_steps_ = 0;
  double step_seconds_ = 0;
  common::StepParts parts_{};
  std::vector<double> busy_seconds_;  // by rank
};

}  // namespace lockstep::runtime

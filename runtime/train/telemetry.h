// Tells about finished steps: status board on every rank; metrics.jsonl and the log on rank 0.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "runtime/common/log.h"
#include "runtime/train/metrics_file.h"
#include "runtime/train/status_board.h"

namespace lockstep::runtime {

struct TelemetryOptions {
  int64_t log_every_steps = 10;
  int64_t total_steps = 0;
  StepCost cost;
};

class Telemetry {
 public:
  // `board` must outlive this object; `file` is rank 0's metrics.jsonl.
  Telemetry(const TelemetryOptions& options, common::Log log, StatusBoard& board,
            std::optional<MetricsFile> file);

  // Logged are step 1, every log_every_steps-th and the last, whatever step a restart begins at.
  // Throws RunError(kOutputUnwritable) if metrics.jsonl cannot be written.
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
  std::optional<MetricsFile> file_;
  // Sums over the steps since the last line.
  int64_t num_steps_ = 0;
  double step_seconds_ = 0;
  common::StepParts parts_{};
  std::vector<double> busy_seconds_;  // by rank
};

}  // namespace lockstep::runtime

// Tells about finished steps: status board on every rank; metrics.jsonl and the log on rank 0.
#pragma once

#include <cstdint>
#include <optional>

#include "runtime/common/log.h"
#include "runtime/train/metrics_file.h"
#include "runtime/train/status_board.h"

namespace lockstep::runtime {

struct TelemetryOptions {
  int64_t log_every_steps = 10;
  int64_t total_steps = 0;
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
  const TelemetryOptions options_;
  const common::Log log_;
  StatusBoard& board_;
  std::optional<MetricsFile> file_;
  double seconds_since_line_ = 0;
  int64_t steps_since_line_ = 0;
};

}  // namespace lockstep::runtime

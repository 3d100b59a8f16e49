#include "runtime/train/telemetry.h"

#include <utility>

#include "runtime/train/run_error.h"

namespace lockstep::runtime {

Telemetry::Telemetry(const TelemetryOptions& options, common::Log log, StatusBoard& board,
                     std::optional<MetricsFile> file)
    : options_(options), log_(std::move(log)), board_(board), file_(std::move(file)) {}

void Telemetry::step_done(const StepStats& stats) {
  board_.step_done(stats);
  seconds_since_line_ += stats.step_seconds;
  ++steps_since_line_;
  const bool is_logged = stats.step == 1 || stats.step == options_.total_steps ||
                         stats.step % options_.log_every_steps == 0;
  if (!is_logged || !file_) return;

  const LoggedStep logged{
      .last = stats, .step_seconds = seconds_since_line_ / static_cast<double>(steps_since_line_)};
  value_or_raise(file_->append(logged), common::ExitCode::kOutputUnwritable);
  log_.info("step",
            {{"step", stats.step},
             {"total_steps", options_.total_steps},
             {"loss", stats.loss},
             {"grad_norm", stats.gradient_norm},
             {"learning_rate", stats.learning_rate},
             {"tokens_per_second", static_cast<double>(stats.step_tokens) / logged.step_seconds},
             {"step_seconds", logged.step_seconds}});
  seconds_since_line_ = 0;
  steps_since_line_ = 0;
}

void Telemetry::evaluation_done(const Evaluation& evaluation) {
  board_.evaluation_done(evaluation);
  if (!file_) return;
  value_or_raise(file_->append(evaluation), common::ExitCode::kOutputUnwritable);
  log_.info("evaluation", {{"step", evaluation.step},
                           {"validation_loss", evaluation.loss},
                           {"tokens", evaluation.loss_tokens},
                           {"seconds", evaluation.seconds}});
}

}  // namespace lockstep::runtime

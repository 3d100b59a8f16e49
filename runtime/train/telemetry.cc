#include "runtime/train/telemetry.h"

#include <cstddef>
#include <utility>

#include "runtime/train/memory_report.h"
#include "runtime/train/run_error.h"

namespace lockstep::runtime {

Telemetry::Telemetry(const TelemetryOptions& options, common::Log log, StatusBoard& board,
                     std::optional<MetricsFile> file)
    : options_(options), log_(std::move(log)), board_(board), file_(std::move(file)) {
  board_.set_cost(options_.cost);
}

void Telemetry::add(const StepStats& stats) {
  ++num_steps_;
  step_seconds_ += stats.step_seconds;
  for (std::size_t part = 0; part < parts_.size(); ++part) parts_[part] += stats.parts[part];
  busy_seconds_.resize(stats.busy_seconds.size());
  for (std::size_t rank = 0; rank < busy_seconds_.size(); ++rank) {
    busy_seconds_[rank] += stats.busy_seconds[rank];
  }
}

LoggedStep Telemetry::take(const StepStats& last) {
  const auto num_steps = static_cast<double>(num_steps_);
  for (double& seconds : parts_) seconds /= num_steps;
  for (double& seconds : busy_seconds_) seconds /= num_steps;
  LoggedStep logged{.last = last,
                    .step_seconds = step_seconds_ / num_steps,
                    .parts = parts_,
                    .busy = busy_skew(busy_seconds_),
                    .cost = options_.cost,
                    .memory = memory_now()};
  num_steps_ = 0;
  step_seconds_ = 0;
  parts_.fill(0);
  busy_seconds_.clear();
  return logged;
}

void Telemetry::step_done(const StepStats& stats) {
  board_.step_done(stats);
  if (!file_) return;
  add(stats);
  const bool is_logged = stats.step == 1 || stats.step == options_.total_steps ||
                         stats.step % options_.log_every_steps == 0;
  if (!is_logged) return;

  const LoggedStep logged = take(stats);
  value_or_raise(file_->append(logged), common::ExitCode::kOutputUnwritable);
  log_.info("step",
            {{"step", stats.step},
             {"total_steps", options_.total_steps},
             {"loss", stats.loss},
             {"grad_norm", stats.gradient_norm},
             {"learning_rate", stats.learning_rate},
             {"tokens_per_second", static_cast<double>(stats.step_tokens) / logged.step_seconds},
             {"step_seconds", logged.step_seconds}});
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

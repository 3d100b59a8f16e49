#include "runtime/train/telemetry.h"

#include <array>
#include <cstddef>
#include <string_view>
#include <utility>

#include "runtime/train/memory_report.h"
#include "runtime/train/run_error.h"

namespace lockstep::runtime {

namespace {

constexpr std::array<std::string_view, common::kNumStepParts> kPartTags = {
    "time/data", "time/forward", "time/backward", "time/communication", "time/optimizer"};

std::vector<Scalar> scalars_of(const LoggedStep& logged) {
  const StepStats& stats = logged.last;
  std::vector<Scalar> scalars = {
      {"train/loss", stats.loss},
      {"train/grad_norm", stats.gradient_norm},
      {"train/learning_rate", stats.learning_rate},
      {"speed/tokens_per_second", static_cast<double>(stats.step_tokens) / logged.step_seconds},
      {"memory/resident_bytes", static_cast<double>(logged.memory.resident_bytes)},
      {"time/step", logged.step_seconds},
      {"time/busy_max", logged.busy.max},
      {"time/busy_min", logged.busy.min}};
  if (logged.cost.flops > 0) {
    scalars.push_back({"speed/flops_per_second", logged.cost.flops / logged.step_seconds});
  }
  if (stats.loss_scale) scalars.push_back({"train/loss_scale", *stats.loss_scale});
  for (std::size_t part = 0; part < kPartTags.size(); ++part) {
    scalars.push_back({kPartTags[part], logged.parts[part]});
  }
  return scalars;
}

}  // namespace

Telemetry::Telemetry(const TelemetryOptions& options, common::Log log, StatusBoard& board,
                     TelemetryFiles files)
    : options_(options), log_(std::move(log)), board_(board), files_(std::move(files)) {
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
  if (!files_.metrics) return;
  add(stats);
  const bool is_logged = stats.step == 1 || stats.step == options_.total_steps ||
                         stats.step % options_.log_every_steps == 0;
  if (!is_logged) return;

  const LoggedStep logged = take(stats);
  value_or_raise(files_.metrics->append(logged), common::ExitCode::kOutputUnwritable);
  if (files_.mlflow) files_.mlflow->line_written(stats.step);
  if (files_.events) {
    value_or_raise(files_.events->append(stats.step, scalars_of(logged)),
                   common::ExitCode::kOutputUnwritable);
  }
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
  if (!files_.metrics) return;
  value_or_raise(files_.metrics->append(evaluation), common::ExitCode::kOutputUnwritable);
  if (files_.mlflow) files_.mlflow->line_written(evaluation.step);
  if (files_.events) {
    const std::vector<Scalar> scalars = {{"train/validation_loss", evaluation.loss}};
    value_or_raise(files_.events->append(evaluation.step, scalars),
                   common::ExitCode::kOutputUnwritable);
  }
  log_.info("evaluation", {{"step", evaluation.step},
                           {"validation_loss", evaluation.loss},
                           {"tokens", evaluation.loss_tokens},
                           {"seconds", evaluation.seconds}});
}

}  // namespace lockstep::runtime

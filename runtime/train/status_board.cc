#include "runtime/train/status_board.h"

#include <array>
#include <cmath>
#include <cstdio>
#include <limits>
#include <utility>

#include "runtime/train/busy_skew.h"
#include "runtime/train/memory_report.h"

namespace lockstep::runtime {

std::string with_all_digits(double value) {
  std::array<char, 40> text{};
  const int size = std::snprintf(text.data(), text.size(), "%.17g", value);
  return std::string(text.data(), static_cast<std::size_t>(size));
}

StatusBoard::StatusBoard(std::string job, int attempt, int rank)
    : rank_label_(std::to_string(rank)),
      tokens_total_(metrics_.counter({"lockstep_tokens_total",
                                      "Tokens trained on, over all ranks.",
                                      {{"rank", rank_label_}}})),
      step_seconds_(metrics_.histogram(
          {"lockstep_step_seconds", "Wall time of a training step.", {{"rank", rank_label_}}},
          {0.01, 0.03, 0.1, 0.3, 1, 3, 10, 30, 100, 300})),
      last_change_(Clock::now()) {
  progress_.job = std::move(job);
  progress_.attempt = attempt;
  progress_.rank = rank;
  for (std::size_t part = 0; part < common::kNumStepParts; ++part) {
    part_seconds_[part] = &part_counter(static_cast<common::StepPart>(part));
  }
  set_phase("starting");
}

prometheus::Gauge& StatusBoard::gauge(const std::string& name, const std::string& help) {
  return metrics_.gauge({name, help, {{"rank", rank_label_}}});
}

prometheus::Counter& StatusBoard::part_counter(common::StepPart part) {
  return metrics_.counter({"lockstep_step_part_seconds_total",
                           "Time of this rank's steps by what its training thread did.",
                           {{"rank", rank_label_}, {"part", std::string(to_string(part))}}});
}

void StatusBoard::set_phase(const std::string& phase,
                            const std::optional<common::PhaseProgress>& progress) {
  const std::lock_guard lock(mutex_);
  const auto phase_gauge = [&](const std::string& name) -> prometheus::Gauge& {
    return metrics_.gauge({"lockstep_phase",
                           "1 for the phase that the rank is in.",
                           {{"rank", rank_label_}, {"phase", name}}});
  };
  if (!progress_.phase.empty()) phase_gauge(progress_.phase).Set(0);
  phase_gauge(phase).Set(1);
  progress_.phase = phase;
  progress_.phase_progress = progress;
  last_change_ = Clock::now();
}

void StatusBoard::set_plan(const std::string& strategy, int64_t step, int64_t total_steps) {
  const std::lock_guard lock(mutex_);
  progress_.strategy = strategy;
  progress_.step = step;
  progress_.total_steps = total_steps;
  if (step > 0) progress_.last_checkpoint_step = step;
  last_change_ = Clock::now();
}

void StatusBoard::set_backend(const std::string& backend) {
  const std::lock_guard lock(mutex_);
  progress_.backend = backend;
  metrics_
      .gauge({"lockstep_communication_info",
              "1 for what carries this rank's collectives.",
              {{"rank", rank_label_}, {"backend", backend}}})
      .Set(1);
}

void StatusBoard::set_cost(const StepCost& cost) {
  const std::lock_guard lock(mutex_);
  cost_ = cost;
}

void StatusBoard::watch_gpu(GpuUtilization gpu) {
  gpu_ = std::move(gpu);
}

void StatusBoard::step_done(const StepStats& stats) {
  const std::lock_guard lock(mutex_);
  progress_.step = stats.step;
  // Of a skipped step the last finite loss tells more.
  if (std::isfinite(stats.loss)) progress_.loss = with_all_digits(stats.loss);
  progress_.gradient_norm = stats.gradient_norm;
  progress_.learning_rate = stats.learning_rate;
  progress_.step_parts = stats.parts;
  show_speed(stats);
  if (progress_.rank == 0) show_ranks(stats);
  show_step(stats);
  last_change_ = Clock::now();
}

void StatusBoard::show_speed(const StepStats& stats) {
  constexpr double kNewest = 0.2;  // weight of the newest step in the moving average
  mean_step_seconds_ = mean_step_seconds_ == 0
                           ? stats.step_seconds
                           : (1 - kNewest) * mean_step_seconds_ + kNewest * stats.step_seconds;
  progress_.tokens_per_second = static_cast<double>(stats.step_tokens) / mean_step_seconds_;
  progress_.eta_seconds = static_cast<int64_t>(
      static_cast<double>(progress_.total_steps - stats.step) * mean_step_seconds_ + 0.5);
  gauge("lockstep_tokens_per_second", "Tokens per second over all ranks.")
      .Set(progress_.tokens_per_second);
  if (cost_.flops == 0) return;
  const double flops_per_second = cost_.flops / mean_step_seconds_;
  progress_.flops_per_second = flops_per_second;
  gauge("lockstep_flops_per_second", "Model FLOP/s over all ranks.").Set(flops_per_second);
  if (cost_.peak_flops_per_second == 0) return;
  progress_.mfu = flops_per_second / cost_.peak_flops_per_second;
  gauge("lockstep_mfu_ratio", "Model FLOP/s as a share of the ranks' peak.").Set(*progress_.mfu);
}

void StatusBoard::show_ranks(const StepStats& stats) {
  progress_.ranks.resize(stats.busy_seconds.size());
  for (std::size_t rank = 0; rank < stats.busy_seconds.size(); ++rank) {
    progress_.ranks[rank] = {.rank = static_cast<int>(rank),
                             .step = stats.step,
                             .step_seconds = stats.busy_seconds[rank],
                             .age_seconds = {}};
  }
  const BusySkew skew = busy_skew(stats.busy_seconds);
  progress_.slowest_rank = skew.slowest_rank;
  gauge("lockstep_busy_min_seconds", "lockstep_busy_seconds of the fastest rank.").Set(skew.min);
  gauge("lockstep_busy_median_seconds", "Median of lockstep_busy_seconds over the ranks.")
      .Set(skew.median);
  gauge("lockstep_busy_max_seconds", "lockstep_busy_seconds of the slowest rank.").Set(skew.max);
  gauge("lockstep_slowest_rank", "The rank with the most work in the last step.")
      .Set(skew.slowest_rank);
}

void StatusBoard::show_step(const StepStats& stats) {
  gauge("lockstep_step", "Last finished step.").Set(static_cast<double>(stats.step));
  gauge("lockstep_loss", "Mean loss of the last step's global batch.").Set(stats.loss);
  gauge("lockstep_gradient_norm", "Gradient norm before clipping.").Set(stats.gradient_norm);
  gauge("lockstep_learning_rate", "Learning rate of the last step.").Set(stats.learning_rate);
  gauge("lockstep_skipped_steps", "Steps of the run whose loss or gradient was not finite.")
      .Set(static_cast<double>(stats.skipped_steps));
  if (stats.loss_scale) {
    gauge("lockstep_loss_scale", "Loss scale of the last step (fp16).").Set(*stats.loss_scale);
  }
  if (stats.pairs) {
    gauge("lockstep_reward_chosen", "Mean reward of the chosen answers of the last step.")
        .Set(stats.pairs->reward_chosen);
    gauge("lockstep_reward_rejected", "Mean reward of the rejected answers of the last step.")
        .Set(stats.pairs->reward_rejected);
    gauge("lockstep_reward_margin", "Mean difference of these rewards.").Set(stats.pairs->margin());
    gauge("lockstep_reward_accuracy_ratio",
          "Share of the pairs whose chosen answer has the larger reward.")
        .Set(stats.pairs->accuracy);
  }
  gauge("lockstep_busy_seconds", "Work of this rank in the last step, without waits for others.")
      .Set(stats.busy_seconds.at(static_cast<std::size_t>(progress_.rank)));
  tokens_total_.Increment(static_cast<double>(stats.step_tokens));
  step_seconds_.Observe(stats.step_seconds);
  for (std::size_t part = 0; part < common::kNumStepParts; ++part) {
    part_seconds_[part]->Increment(stats.parts[part]);
  }
}

void StatusBoard::set_snapshot_bytes(int64_t bytes) {
  gauge("lockstep_checkpoint_snapshot_bytes",
        "Memory of the copy that checkpoints are written from.")
      .Set(static_cast<double>(bytes));
}

void StatusBoard::training_stood_still(const StandStill& stand_still) {
  const std::map<std::string, std::string> labels = {{"rank", rank_label_}};
  metrics_
      .counter({"lockstep_checkpoint_stall_seconds_total",
                "Time that training stood still to begin a checkpoint.", labels})
      .Increment(stand_still.seconds);
  metrics_
      .counter({"lockstep_checkpoint_waits_total",
                "Checkpoints that had to wait until the one before was published.", labels})
      .Increment(stand_still.for_the_save_before ? 1 : 0);
}

void StatusBoard::evaluation_done(const Evaluation& evaluation) {
  const std::lock_guard lock(mutex_);
  progress_.validation_loss = with_all_digits(evaluation.loss);
  last_change_ = Clock::now();
  gauge("lockstep_validation_loss", "Mean loss of the last evaluation.").Set(evaluation.loss);
}

void StatusBoard::checkpoint_done(int64_t step, double seconds) {
  const std::lock_guard lock(mutex_);
  progress_.last_checkpoint_step = step;
  last_change_ = Clock::now();
  gauge("lockstep_checkpoint_step", "Step of the newest checkpoint.")
      .Set(static_cast<double>(step));
  gauge("lockstep_checkpoint_seconds",
        "Time from the begin of the newest checkpoint until it was known to be published.")
      .Set(seconds);
}

common::JobProgress StatusBoard::progress() const {
  const std::lock_guard lock(mutex_);
  common::JobProgress progress = progress_;
  progress.age_seconds = std::chrono::duration<double>(Clock::now() - last_change_).count();
  for (common::RankHeartbeat& heartbeat : progress.ranks) {
    if (heartbeat.rank == progress.rank) heartbeat.age_seconds = progress.age_seconds;
  }
  return progress;
}

std::string StatusBoard::metrics_page() {
  const common::MemoryUse memory = memory_now();
  const auto show = [this](const std::string& name, const std::string& help, int64_t bytes) {
    gauge(name, help).Set(static_cast<double>(bytes));
  };
  show("lockstep_resident_bytes", "Resident memory of the rank.", memory.resident_bytes);
  show("lockstep_resident_peak_bytes", "The most memory that the rank ever held resident.",
       memory.resident_peak_bytes);
  show("lockstep_buffer_bytes", "Weights, gradients, moments, activations and sums.",
       memory.buffer_bytes);
  show("lockstep_buffer_peak_bytes", "The most that lockstep_buffer_bytes ever was.",
       memory.buffer_peak_bytes);
  if (gpu_) {
    // A driver that stops telling must not leave the last value standing.
    gauge("lockstep_gpu_utilization_ratio", "Share of time in which the rank's GPU was at work.")
        .Set(gpu_->sample().value_or(std::numeric_limits<double>::quiet_NaN()));
  }
  return metrics_.text();
}

std::map<std::string, common::HttpHandler> StatusBoard::routes() {
  return {
      {"/healthz", [] { return common::HttpResponse{.body = "ok\n"}; }},
      {"/status",
       [this] {
         common::JobProgress shown = progress();
         shown.memory = memory_now();
         return common::HttpResponse{.content_type = "application/json", .body = encode(shown)};
       }},
      {"/metrics",
       [this] {
         return common::HttpResponse{.content_type = common::kMetricsContentType,
                                     .body = metrics_page()};
       }},
  };
}

}  // namespace lockstep::runtime

#include "operator/cli/advice.h"

#include <algorithm>
#include <array>
#include <cstdio>

namespace lockstep::cli {
namespace {

using common::OptimizerConfig;
using common::ScheduleConfig;
using common::TrainConfig;

constexpr int64_t kShortRun = 100;  // steps below which shares mean little
constexpr double kLongWarmup = 0.2;

std::string percent(double share) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%.3g %%", 100 * share);
  return text.data();
}

// "950", "16.4 k", "2.1 M", "1.5 G".
std::string counted(double number) {
  constexpr std::array<const char*, 4> kUnits = {"", " k", " M", " G"};
  std::size_t unit = 0;
  while (number >= 1000 && unit + 1 < kUnits.size()) {
    number /= 1000;
    ++unit;
  }
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%.3g", number);
  return std::string(text.data()).append(kUnits[unit]);
}

void advise_warmup(const TrainConfig& train, std::vector<std::string>& advice) {
  if (train.steps < kShortRun) return;
  const int64_t warmup = train.schedule.warmup_steps;
  const auto steps = static_cast<double>(train.steps);
  const double share = static_cast<double>(warmup) / steps;
  if (warmup == 0 && train.optimizer.kind != OptimizerConfig::Kind::kSgd) {
    advice.push_back(
        "train.schedule.warmupSteps: none; the first steps of Adam and AdamW are large, 1 to 5 % "
        "of the steps is usual, e.g. " +
        std::to_string(std::max<int64_t>(1, train.steps / 50)));
  } else if (share > kLongWarmup) {
    advice.push_back("train.schedule.warmupSteps: " + percent(share) +
                     " of the run; 1 to 5 % is usual, e.g. " +
                     std::to_string(std::max<int64_t>(1, train.steps / 50)));
  }
}

void advise_checkpoints(const TrainConfig& train, std::vector<std::string>& advice) {
  const int64_t every = train.checkpoint.every_steps;
  if (train.steps < kShortRun) return;
  if (every == 0) {
    advice.emplace_back(
        "train.checkpoint.everySteps: 0; a failure costs the whole run, a stop does not");
  } else if (2 * every > train.steps) {
    advice.push_back("train.checkpoint.everySteps: a failure costs up to " +
                     std::to_string(std::min(every, train.steps)) + " of " +
                     std::to_string(train.steps) + " steps; e.g. " +
                     std::to_string(train.steps / 10));
  }
}

std::string advise_rate(const TrainConfig& train) {
  const bool is_sgd = train.optimizer.kind == OptimizerConfig::Kind::kSgd;
  return "train.optimizer.lr: fits train.batch.globalBatchSize, not the ranks: more ranks need no "
         "other rate; k times the batch usually wants " +
         std::string(is_sgd ? "k" : "the square root of k") + " times the rate";
}

void advise_evaluation(const TrainConfig& train, std::vector<std::string>& advice) {
  const bool has_data = train.data.has_validation();
  if (has_data && train.evaluation.every_steps == 0 && train.steps >= kShortRun) {
    advice.push_back(
        "train.evaluation.everySteps: 0; the validation loss is known after the last step only, "
        "e.g. " +
        std::to_string(train.steps / 10));
  }
}

}  // namespace

std::string explain_batch(const TrainConfig& train, int64_t ranks) {
  const int64_t samples = train.batch.global_batch_size;
  const double tokens = static_cast<double>(samples * rows_per_sample(train)) *
                        static_cast<double>(train.data.sequence_length);
  std::string text =
      "batch: " + std::to_string(samples) +
      (is_preference(train.task) ? " pairs = " : " sequences = ") + std::to_string(ranks) +
      " ranks x " + std::to_string(train.batch.num_micro_batches() / ranks) + " micro-batches of " +
      std::to_string(train.batch.micro_batch_size) + "; " + counted(tokens) + " tokens a step";
  if (train.steps > 0) {
    text += ", " + counted(tokens * static_cast<double>(train.steps)) + " in " +
            std::to_string(train.steps) + " steps";
  }
  return text;
}

std::vector<std::string> advise(const TrainConfig& train) {
  std::vector<std::string> advice;
  advise_warmup(train, advice);
  advice.push_back(advise_rate(train));
  advise_checkpoints(train, advice);
  advise_evaluation(train, advice);
  return advice;
}

}  // namespace lockstep::cli

#include "runtime/custom/loop_options.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <cmath>
#include <string>
#include <string_view>
#include <utility>

#include <nlohmann/json.hpp>

#include "runtime/common/choose_strategy.h"
#include "runtime/common/schema.h"
#include "runtime/common/train_fields.h"
#include "runtime/train/run_error.h"

namespace lockstep::runtime {
namespace {

using common::Problem;
using common::Problems;
using nlohmann::json;

std::string_view name_of(common::CommunicationConfig::Backend backend) {
  using Backend = common::CommunicationConfig::Backend;
  return backend == Backend::kGloo           ? "gloo"
         : backend == Backend::kSharedMemory ? "shared-memory"
                                             : "auto";
}

json encode(const common::OptimizerConfig& optimizer) {
  json encoded = {
      {"name", optimizer_name(optimizer.kind)},      {"lr", optimizer.lr},
      {"betas", {optimizer.beta1, optimizer.beta2}}, {"eps", optimizer.eps},
      {"weightDecay", optimizer.weight_decay},       {"gradientClip", optimizer.gradient_clip}};
  // Those of sgd only: a job that gives one names the optimizer that has it.
  if (optimizer.momentum != 0) encoded["momentum"] = optimizer.momentum;
  if (optimizer.nesterov) encoded["nesterov"] = true;
  return encoded;
}

json encode(const common::ParallelismConfig& parallelism) {
  const bool is_fast = parallelism.reduction == common::Reduction::kFast;
  return {{"strategy", to_string(parallelism.strategy)},
          {"shardRanks", parallelism.shard_ranks},
          {"reduction", is_fast ? "fast" : "reproducible"},
          {"reduceDtype", to_string(parallelism.reduce_dtype)},
          {"bucketBytes", parallelism.bucket_bytes},
          {"prefetchUnits", parallelism.prefetch_units}};
}

json encode(const common::CheckpointConfig& checkpoint) {
  const std::string resume = checkpoint.resume ? "auto" : "never";
  return {{"everySteps", checkpoint.every_steps},
          {"keep", checkpoint.keep},
          {"async", checkpoint.async},
          {"resume", checkpoint.resume_from.empty() ? resume : checkpoint.resume_from},
          {"gracePeriodSeconds", checkpoint.grace_period_seconds}};
}

// The options as a job's `train` has them.
json encode(const CustomLoopOptions& options) {
  return {{"steps", options.steps},
          {"precision", to_string(options.precision)},
          {"nonFinite", {{"maxConsecutiveSkips", options.non_finite.max_consecutive_skips}}},
          {"parallelism", encode(options.parallelism)},
          {"optimizer", encode(options.optimizer)},
          {"checkpoint", encode(options.checkpoint)},
          {"export", {{"dtype", to_string(options.export_dtype)}}},
          {"logging", {{"everySteps", options.log_every_steps}}},
          {"communication",
           {{"backend", name_of(options.communication.backend)},
            {"timeoutSeconds", options.communication.timeout_seconds}}},
          {"seed", options.seed}};
}

// The rows of the table of `train` that `encoded` fills.
common::Field fields_of(const json& encoded) {
  common::Field fields{.name = "options", .type = common::FieldType::kObject};
  for (const auto& [name, value] : encoded.items()) {
    fields.children.push_back(*common::find_child(common::train_fields(), name));
  }
  return fields;
}

// The option that a path of the table stands for: "options.parallelism.bucket_bytes".
std::string option_named(const std::string& path) {
  static constexpr std::array<std::pair<std::string_view, std::string_view>, 5> kOthers = {
      {{"options.export.dtype", "options.export_dtype"},
       {"options.logging.everySteps", "options.log_every_steps"},
       {"options.optimizer.name", "options.optimizer.kind"},
       {"options.optimizer.betas[0]", "options.optimizer.beta1"},
       {"options.optimizer.betas[1]", "options.optimizer.beta2"}}};
  for (const auto& [field, option] : kOthers) {
    if (path == field) return std::string(option);
  }
  std::string name;
  for (const char letter : path) {
    if (std::isupper(static_cast<unsigned char>(letter)) != 0) name += '_';
    name += static_cast<char>(std::tolower(static_cast<unsigned char>(letter)));
  }
  return name;
}

// JSON has no number for these, so the table cannot judge them.
void add_not_finite(const common::OptimizerConfig& optimizer, Problems& problems) {
  const std::array<std::pair<const char*, double>, 7> numbers = {
      {{"lr", optimizer.lr},
       {"betas[0]", optimizer.beta1},
       {"betas[1]", optimizer.beta2},
       {"eps", optimizer.eps},
       {"momentum", optimizer.momentum},
       {"weightDecay", optimizer.weight_decay},
       {"gradientClip", optimizer.gradient_clip}}};
  for (const auto& [name, value] : numbers) {
    if (std::isfinite(value)) continue;
    problems.push_back({.path = std::string("options.optimizer.").append(name),
                        .message = "must be a finite number"});
  }
}

void add_below_one(const std::string& name, int64_t value, Problems& problems) {
  if (value >= 1) return;
  problems.push_back(
      {.path = "options." + name, .message = "must be at least 1, found " + std::to_string(value)});
}

}  // namespace

std::string_view optimizer_name(common::OptimizerConfig::Kind kind) {
  using Kind = common::OptimizerConfig::Kind;
  return kind == Kind::kAdamW ? "adamw" : kind == Kind::kAdam ? "adam" : "sgd";
}

void check_options(const CustomLoopOptions& options, int64_t ranks) {
  const json encoded = encode(options);
  Problems problems = common::check_and_default(fields_of(encoded), encoded, "options").problems;
  for (Problem& problem : common::check_train_relations(encoded, ranks, "options")) {
    problems.push_back(std::move(problem));
  }
  add_not_finite(options.optimizer, problems);
  add_below_one("num_micro_batches", options.num_micro_batches, problems);
  add_below_one("num_threads", options.num_threads, problems);
  if (options.parallelism.strategy == common::Strategy::kAuto) {
    problems.push_back({.path = "options.parallelism.strategy",
                        .message = "is auto: nothing is known about what blocks need",
                        .hint = "choose ddp, zero1, zero2 or zero3"});
  }
  if (problems.empty()) return;
  std::string message;
  for (const Problem& problem : problems) {
    message.append(message.empty() ? "" : "; ").append(option_named(problem.path));
    message.append(": ").append(problem.message);
  }
  const std::string& hint = problems.front().hint;
  refuse(message, hint.empty() ? "options have the bounds of their fields in a job" : hint);
}

common::TrainConfig config_of(const CustomLoopOptions& options) {
  common::TrainConfig config;
  config.data.sequence_length = 1;
  config.batch = {.global_batch_size = options.num_micro_batches, .micro_batch_size = 1};
  config.steps = options.steps;
  config.precision = options.precision;
  config.non_finite = options.non_finite;
  config.parallelism = options.parallelism;
  config.optimizer = options.optimizer;
  config.checkpoint = options.checkpoint;
  config.export_dtype = options.export_dtype;
  config.logging.every_steps = options.log_every_steps;
  config.communication = options.communication;
  config.seed = options.seed;
  return config;
}

}  // namespace lockstep::runtime

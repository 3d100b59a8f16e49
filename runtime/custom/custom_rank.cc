// From a rank's environment to a loop, and to the process's end.
#include <algorithm>
#include <array>
#include <cstdio>
#include <exception>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>

#include <ATen/Parallel.h>
#include <nlohmann/json.hpp>

#include "runtime/checkpoint/crc32c.h"
#include "runtime/checkpoint/disk.h"
#include "runtime/common/choose_strategy.h"
#include "runtime/common/text_file.h"
#include "runtime/custom/custom_loop.h"
#include "runtime/custom/loop_state.h"
#include "runtime/custom/refusal.h"
#include "runtime/kernels/denormals.h"
#include "runtime/train/exchange.h"
#include "runtime/train/run_error.h"
#include "runtime/train/saving.h"
#include "runtime/train/start_up.h"
#include "runtime/train/termination.h"

namespace lockstep::runtime {
namespace {

using common::ExitCode;
using common::Result;

void check(const CustomLoopOptions& options) {
  const auto require_positive = [](int64_t value, const std::string& name) {
    if (value >= 1) return;
    refuse("options." + name + " must be at least 1, found " + std::to_string(value), "set it");
  };
  require_positive(options.steps, "steps");
  require_positive(options.num_micro_batches, "num_micro_batches");
  require_positive(options.log_every_steps, "log_every_steps");
  require_positive(options.num_threads, "num_threads");
  if (options.parallelism.strategy != common::Strategy::kAuto) return;
  refuse("options.parallelism.strategy is auto", "choose ddp, zero1, zero2 or zero3");
}

// The configuration as the parts of the trainer read it. A micro-batch counts as one sample.
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

std::string_view name_of(common::OptimizerConfig::Kind kind) {
  using Kind = common::OptimizerConfig::Kind;
  return kind == Kind::kAdamW ? "adamw" : kind == Kind::kAdam ? "adam" : "sgd";
}

std::string hex(uint32_t value) {
  std::array<char, 9> digits{};
  std::snprintf(digits.data(), digits.size(), "%08x", value);
  return digits.data();
}

// What tells this model from another: all names and shapes, in a checksum.
std::string fingerprint(const std::vector<Unit>& units) {
  std::string text;
  for (const Unit& unit : units) {
    text += unit.name + "\n";
    for (const UnitTensor& tensor : unit.tensors) {
      text += tensor.name + " " + nlohmann::json(tensor.shape).dump() + "\n";
    }
  }
  return hex(crc32c(std::as_bytes(std::span(text))));
}

// The fields that decide which numbers a step computes, as a job's `train` has them.
std::string settings_json(const std::vector<Unit>& units, const CustomLoopOptions& options) {
  return nlohmann::json{{"model", {{"custom", fingerprint(units)}}},
                        {"batch", {{"microBatches", options.num_micro_batches}}},
                        {"optimizer", {{"name", name_of(options.optimizer.kind)}}},
                        {"precision", to_string(options.precision)},
                        {"seed", options.seed}}
      .dump();
}

std::string job_name(const std::string& path) {
  const Result<std::string> text = common::read_text_file(path);
  const auto job = nlohmann::json::parse(text ? *text : "", nullptr, false);
  if (!job.is_object() || !job.contains("name") || !job["name"].is_string()) {
    throw RunError({ExitCode::kInputNotFound, "LOCKSTEP_JOB: " + path + " names no job",
                    "it is what `lockstep run` and the operator write"});
  }
  return job["name"];
}

// Of every unit, by unit; ranks that differ are named.
void require_same_first_weights(RankState& s, const std::vector<std::vector<float>>& weights) {
  std::string mine;
  for (const std::vector<float>& unit : weights) {
    mine += hex(crc32c(std::as_bytes(std::span(unit))));
  }
  const std::vector<std::string> all = gather_texts(*s.collective, mine, "first weights");
  for (size_t rank = 0; rank < all.size(); ++rank) {
    if (all[rank] == all[0]) continue;
    const auto [at, other] =
        std::mismatch(all[0].begin(), all[0].end(), all[rank].begin(), all[rank].end());
    const auto unit = std::min(static_cast<size_t>(at - all[0].begin()) / 8, s.units.size() - 1);
    refuse("block '" + s.units[unit].name + "': the first weights of rank " + std::to_string(rank) +
               " differ from those of rank 0",
           "call torch::manual_seed() with the same number on every rank before the modules are "
           "made");
  }
}

// Each unit with its first weights, and moments of zero.
void fill(RankState& s, const std::vector<std::vector<float>>& first) {
  s.parallelism->visit_shards(StateAccess::kFill, [&first](const ParamShard& shard) {
    const std::vector<float>& values = first[static_cast<size_t>(shard.unit)];
    std::copy_n(values.begin() + shard.begin_elem, shard.weights.size(), shard.weights.begin());
    std::fill(shard.moment1.begin(), shard.moment1.end(), 0.0F);
    std::fill(shard.moment2.begin(), shard.moment2.end(), 0.0F);
  });
}

void require_distinct_names(const std::vector<CustomBlock>& blocks) {
  for (size_t i = 0; i < blocks.size(); ++i) {
    for (size_t j = 0; j < i; ++j) {
      if (blocks[i].name == blocks[j].name) {
        refuse("two blocks are named '" + blocks[i].name + "'", "names are unique");
      }
    }
  }
}

// Where a parameter was met.
struct OwnedParameter {
  std::string name;
  at::Tensor tensor;
};

void require_unshared(const std::vector<CustomBlock>& blocks) {
  std::vector<OwnedParameter> all;
  for (const CustomBlock& block : blocks) {
    if (!block.module) continue;
    for (const auto& item : block.module->named_parameters()) {
      const std::string name = block.name + "." + item.key();
      for (const OwnedParameter& other : all) {
        if (!other.tensor.is_same(item.value()) && !other.tensor.is_alias_of(item.value()))
          continue;
        refuse(other.name + " and " + name + " share their memory",
               "a parameter lives in one block: put what shares it into that block");
      }
      all.push_back({name, item.value()});
    }
  }
}

std::vector<ModuleUnit> take_modules(std::vector<CustomBlock> blocks, DType dtype) {
  require_distinct_names(blocks);
  require_unshared(blocks);
  std::vector<ModuleUnit> units;
  units.reserve(blocks.size());
  for (CustomBlock& block : blocks) units.emplace_back(std::move(block), dtype);
  const bool is_trained = std::any_of(units.begin(), units.end(), [](const ModuleUnit& unit) {
    return unit.unit().num_elems > 0 && !unit.is_frozen();
  });
  if (!is_trained) refuse("no block has a parameter to train", "give the modules to their blocks");
  return units;
}

}  // namespace

// What outlives a loop.
struct CustomRank::Process {
  Process() : disk(real_disk()) {}

  common::WorkerEnv env;
  common::Log log;
  std::unique_ptr<Disk> disk;
  std::unique_ptr<StatusBoard> board;
  std::unique_ptr<StopSignal> stop;
};

CustomRank::CustomRank(RankEnding& ending) : process_(std::make_unique<Process>()) {
  process_->env = read_environment();
  const common::WorkerEnv& env = process_->env;
  const std::string name = job_name(env.job_path);
  process_->log = common::Log({{"job", name}, {"rank", env.rank}, {"attempt", env.attempt}});
  process_->board = std::make_unique<StatusBoard>(name, env.attempt, env.rank);
  process_->stop = std::make_unique<StopSignal>(
      [&ending, &board = *process_->board, env = process_->env, log = process_->log] {
        const int64_t step = board.progress().step;
        ending.fail(env, log, step, preempted(step, false));
      });
}

CustomRank::~CustomRank() = default;

const common::WorkerEnv& CustomRank::env() const {
  return process_->env;
}

int64_t CustomRank::step() const {
  return loop_ ? loop_->step() : 0;
}

CustomLoop& CustomRank::prepare(std::vector<CustomBlock> blocks, const CustomLoopOptions& options) {
  if (loop_) refuse("prepare() was called twice", "a process trains one model");
  check(options);
  at::set_num_threads(options.num_threads);
  Process& process = *process_;
  auto state = std::make_unique<CustomLoop::State>(*process.disk, *process.board, *process.stop);
  CustomLoop::State& loop = *state;
  RankState& s = loop.s;
  loop_.reset(new CustomLoop(std::move(state)));
  s.env = process.env;
  s.log = process.log;
  s.job = {
      .name = job_name(s.env.job_path), .ranks = s.env.world_size, .train = config_of(options)};
  loop.blocks = take_modules(std::move(blocks), options.precision);
  std::vector<std::vector<float>> first;
  for (ModuleUnit& block : loop.blocks) {
    const bool has_unit = block.unit().num_elems > 0;
    loop.units.push_back(has_unit ? static_cast<int64_t>(s.units.size()) : -1);
    if (!has_unit) continue;
    s.units.push_back(block.unit());
    s.job.train.frozen.push_back(block.is_frozen());
    first.push_back(block.take_first_weights());
  }
  s.job.train_json = settings_json(s.units, options);
  check_job(s);

  const OutputVerdict output = prepare_folder(s, loop.disk);
  const Start start = start_up(s, output, loop.disk, loop.board, [&s, &first, &options] {
    require_same_first_weights(s, first);
    s.strategy = to_string(options.parallelism.strategy);
    try {
      build_parallelism(s, options.parallelism.strategy);
    } catch (const std::invalid_argument& error) {
      refuse(std::string("options.parallelism: ") + error.what(), "correct the options");
    }
    return [&s, &first] { fill(s, first); };
  });
  loop.was_finished = start == Start::kAlreadyFinished;
  if (loop.was_finished) return *loop_;
  make_saver(s, loop.disk, loop.board);
  loop.telemetry.emplace(open_telemetry(s, loop.board, {}));
  process.stop->hold();
  loop.board.set_phase("training");
  return *loop_;
}

void run_custom_rank(const std::function<void(CustomRank&)>& body) {
  block_stop_signals();
  flush_denormals();  // before any other thread starts: all of them inherit it
  // What outlives the try block is never destroyed (see RankEnding).
  RankEnding ending;
  std::unique_ptr<CustomRank> rank;
  try {
    rank = std::make_unique<CustomRank>(ending);
    body(*rank);
    ending.succeed();
  } catch (...) {
    const RunFailure failure = verdict_of(std::current_exception());
    const common::WorkerEnv env = rank ? rank->env() : common::WorkerEnv();
    const common::Log log({{"rank", env.rank}, {"attempt", env.attempt}});
    ending.fail(env, log, rank ? rank->step() : 0, failure);
  }
}

}  // namespace lockstep::runtime

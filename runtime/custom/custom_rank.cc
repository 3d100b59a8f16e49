// From a rank's environment to a loop, and to the process's end.
#include <algorithm>
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
#include "runtime/custom/loop_options.h"
#include "runtime/custom/loop_state.h"
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

// What tells this model from another: all names and shapes, in a checksum.
std::string fingerprint(const std::vector<Unit>& units) {
  std::string text;
  for (const Unit& unit : units) {
    text += unit.name + "\n";
    for (const UnitTensor& tensor : unit.tensors) {
      text += tensor.name + " " + nlohmann::json(tensor.shape).dump() + "\n";
    }
  }
  return crc32c_hex(std::as_bytes(std::span(text)));
}

// The fields that decide which numbers a step computes, as a job's `train` has them.
std::string settings_json(const std::vector<Unit>& units, const CustomLoopOptions& options) {
  return nlohmann::json{{"model", {{"custom", fingerprint(units)}}},
                        {"batch", {{"microBatches", options.num_micro_batches}}},
                        {"optimizer", {{"name", optimizer_name(options.optimizer.kind)}}},
                        {"precision", to_string(options.precision)},
                        {"seed", options.seed}}
      .dump();
}

// What a rank with a command of its own reads of the job file. Its `train` is null.
struct CustomJob {
  std::string name;
  int64_t ranks = 0;
};

void require_processor(const common::WorkerEnv& env) {
  if (env.device == common::DeviceChoice::kProcessor) return;
  refuse("LOCKSTEP_DEVICE: a custom loop does not run on GPUs yet",
         "leave GPUs out of the job's resources; locally, set it to cpu");
}

CustomJob read_job(const std::string& path) {
  constexpr char kWhose[] = "it is what `lockstep run` and the operator write";
  const Result<std::string> text = common::read_text_file(path);
  if (!text) {
    throw RunError({ExitCode::kInputNotFound, "LOCKSTEP_JOB: " + text.error().message, kWhose});
  }
  const auto job = nlohmann::json::parse(*text, nullptr, false);
  const auto has = [&job](const char* key) { return job.is_object() && job.contains(key); };
  if (!has("name") || !job["name"].is_string() || !has("ranks") ||
      !job["ranks"].is_number_integer()) {
    refuse("LOCKSTEP_JOB: " + path + " has no name and ranks of a job", kWhose);
  }
  return {.name = job["name"], .ranks = job["ranks"]};
}

// Of every unit, by unit; ranks that differ are named.
void require_same_first_weights(RankState& s, const std::vector<std::vector<float>>& weights) {
  std::string mine;
  for (const std::vector<float>& unit : weights) {
    mine += crc32c_hex(std::as_bytes(std::span(unit)));
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
  CustomJob job;
  common::Log log;
  std::unique_ptr<Disk> disk;
  std::unique_ptr<StatusBoard> board;
  std::unique_ptr<StopSignal> stop;
};

CustomRank::CustomRank(const common::WorkerEnv& env, RankEnding& ending)
    : process_(std::make_unique<Process>()) {
  process_->env = env;
  process_->job = read_job(env.job_path);
  const std::string& name = process_->job.name;
  process_->log = common::Log({{"job", name}, {"rank", env.rank}, {"attempt", env.attempt}});
  process_->board = std::make_unique<StatusBoard>(name, env.attempt, env.rank);
  process_->stop =
      std::make_unique<StopSignal>([&ending, &board = *process_->board, env, log = process_->log] {
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
  check_options(options, process_->env.world_size);
  at::set_num_threads(options.num_threads);
  Process& process = *process_;
  auto state = std::make_unique<CustomLoop::State>(*process.disk, *process.board, *process.stop);
  CustomLoop::State& loop = *state;
  RankState& s = loop.s;
  loop_.reset(new CustomLoop(std::move(state)));
  s.env = process.env;
  s.log = process.log;
  s.job = {.name = process.job.name, .ranks = process.job.ranks, .train = config_of(options)};
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
    return [&s, first = std::move(first)] { fill(s, first); };
  });
  loop.was_finished = start == Start::kAlreadyFinished;
  if (loop.was_finished) return *loop_;
  make_saver(s, loop.disk, loop.board);
  loop.telemetry.emplace(open_telemetry(s, loop.board, {}));
  process.stop->hold();
  loop.board.set_phase("training");
  s.clock->begin_step(s.step + 1);
  return *loop_;
}

void run_custom_rank(const std::function<void(CustomRank&)>& body) {
  block_stop_signals();
  flush_denormals();  // before any other thread starts: all of them inherit it
  // What outlives the try block is never destroyed (see RankEnding).
  RankEnding ending;
  common::WorkerEnv env;
  std::unique_ptr<CustomRank> rank;
  try {
    env = read_environment();
    require_processor(env);
    rank = std::make_unique<CustomRank>(env, ending);
    body(*rank);
    ending.succeed();
  } catch (...) {
    const RunFailure failure = verdict_of(std::current_exception());
    const common::Log log({{"rank", env.rank}, {"attempt", env.attempt}});
    ending.fail(env, log, rank ? rank->step() : 0, failure);
  }
}

}  // namespace lockstep::runtime

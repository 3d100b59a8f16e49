#include "runtime/train/start_up.h"

#include <array>
#include <chrono>
#include <fstream>
#include <span>
#include <sstream>
#include <utility>
#include <vector>

#include "runtime/checkpoint/crc32c.h"
#include "runtime/checkpoint/output_folder.h"
#include "runtime/checkpoint/reader.h"
#include "runtime/comm/rendezvous.h"
#include "runtime/common/choose_strategy.h"
#include "runtime/common/estimate_memory.h"
#include "runtime/kernels/device.h"
#include "runtime/kernels/gemm.h"
#include "runtime/parallel/decay_ranges.h"
#include "runtime/parallel/make_parallelism.h"
#include "runtime/parallel/staged_collective.h"
#include "runtime/train/activation_store.h"
#include "runtime/train/distilling.h"
#include "runtime/train/exchange.h"
#include "runtime/train/exporting.h"
#include "runtime/train/first_weights.h"
#include "runtime/train/job_inputs.h"
#include "runtime/train/memory_report.h"
#include "runtime/train/pad_token.h"
#include "runtime/train/reference_log_probs.h"
#include "runtime/train/training_data.h"

namespace lockstep::runtime {
namespace {

using common::Error;
using common::ErrorCode;
using common::ExitCode;
using common::OutputMode;
using common::Result;

// Equal in all attempts of a run, different for another job, configuration or LOCKSTEP_RUN_ID.
std::string identify_run(const RankState& s) {
  const std::string text = s.job.name + "\n" + s.job.train_json + "\n" + s.env.run_id;
  return crc32c_hex(std::as_bytes(std::span(text)));
}

// How this attempt treats what it finds in the output.
//   is_ours: an earlier attempt of this run has prepared it.
OutputMode choose_mode(const RankState& s, bool is_ours) {
  if (s.env.output_mode == OutputMode::kResume) return OutputMode::kResume;
  const bool starts_afresh =
      is_ours ? !s.config().checkpoint.resume : s.env.output_mode == OutputMode::kOverwrite;
  return starts_afresh ? OutputMode::kOverwrite : OutputMode::kAuto;
}

// Returns whether the run is finished. Errors: kConflict if there are checkpoints that it may not
// go on from; what prepare_output() returns.
Result<bool> prepare(const RankState& s, Disk& disk) {
  const std::string& output = s.env.output;
  ASSIGN_OR_RETURN(const std::string found, prepared_run(output));
  const bool is_ours = s.env.attempt > 0 && found == s.run;
  ASSIGN_OR_RETURN(const std::optional<FinishedRun> finished, finished_run(output));
  if (is_ours && finished && finished->run == s.run) return true;
  const OutputMode mode = choose_mode(s, is_ours);
  ASSIGN_OR_RETURN(const std::vector<FoundCheckpoint> checkpoints, find_checkpoints(output));
  if (mode == OutputMode::kAuto && !s.config().checkpoint.resume && !checkpoints.empty()) {
    return Error{
        ErrorCode::kConflict,
        "train.checkpoint.resume is never, but " + output + " holds checkpoints of an earlier run",
        "overwrite the output, choose another, or set resume to auto"};
  }
  RETURN_IF_ERROR(
      prepare_output(disk, output, {.mode = mode, .run = s.run, .attempt = s.env.attempt}));
  return false;
}

void meet(RankState& s) {
  std::unique_ptr<Collective> connected =
      connect({.rank = s.env.rank,
               .world_size = s.env.world_size,
               .master_addr = s.env.master_addr,
               .master_port = s.env.master_port,
               .attempt = s.env.attempt,
               .backend = s.config().communication.backend,
               .timeout = std::chrono::seconds(s.config().communication.timeout_seconds),
               .shm_folder = s.env.shm_folder,
               .network_interface = s.env.network_interface,
               .observer = s.clock.get()});
  s.collective =
      device().has_own_memory ? make_staged_collective(std::move(connected)) : std::move(connected);
  const Topology& topology = s.collective->topology();
  s.log.info("connected", {{"backend", topology.backend},
                           {"ranks_per_host", topology.ranks_per_host},
                           {"reason", topology.reason}});
}

// Rank 0 writes a nonce and tells it; who does not find it has another folder.
void require_shared_output(RankState& s, Disk& disk) {
  Result<void> written;
  const std::string nonce = s.is_rank0() ? make_nonce() : "";
  if (s.is_rank0()) written = write_nonce(disk, s.env.output, nonce);
  agree_on(*s.collective, std::move(written), ExitCode::kOutputUnwritable, "writing the nonce");
  const std::string told = gather_texts(*s.collective, nonce, "output nonce").front();
  agree_on(*s.collective, check_nonce(s.env.output, told), ExitCode::kOutputNotShared,
           "looking for the nonce in the output folder");
  Result<void> removed;
  if (s.is_rank0()) removed = remove_nonce(disk, s.env.output, nonce);
  agree_on(*s.collective, std::move(removed), ExitCode::kOutputUnwritable, "removing the nonce");
}

// Bytes of memory that a rank may use: its GPU's, or its cgroup's limit, else its share of what is
// free.
int64_t available_memory_bytes(const common::WorkerEnv& env) {
  if (device().has_own_memory) return device().memory_bytes;
  int64_t limit = 0;
  if (std::ifstream file("/sys/fs/cgroup/memory.max"); file >> limit) {
    return limit / env.local_world_size;
  }
  std::ifstream meminfo("/proc/meminfo");
  for (std::string line; std::getline(meminfo, line);) {
    std::istringstream fields(line);
    std::string key;
    int64_t kibibytes = 0;
    if (fields >> key >> kibibytes && key == "MemAvailable:") {
      return kibibytes * 1024 / env.local_world_size;
    }
  }
  return 0;
}

// Rank 0 chooses for all: free memory differs from rank to rank.
common::Strategy agree_on_strategy(RankState& s) {
  const common::DType precision = s.config().precision;
  const auto place =
      device().has_own_memory ? common::RankDevice::kGpu : common::RankDevice::kProcessor;
  const common::StrategyChoice choice =
      choose_strategy(s.config(), s.env.world_size, available_memory_bytes(s.env), place);
  std::optional<RunFailure> failure;
  if (s.is_rank0() && !choice.fits) {
    failure = RunFailure{ExitCode::kInvalidConfig, "train.parallelism.strategy: " + choice.reason,
                         "give the ranks more memory, or choose a strategy to try it anyway"};
  }
  agree(*s.collective, failure, "choosing a strategy");
  const std::string name(to_string(choice.strategy));
  s.strategy = gather_texts(*s.collective, name, "strategy").front();
  if (s.is_rank0()) {
    s.log.info("strategy",
               {{"strategy", name},
                {"reason", choice.reason},
                {"backend", s.collective->backend()},
                {"parameters", s.decoder->num_parameters()},
                {"trained_parameters", common::num_trained_parameters(s.config())},
                {"precision", to_string(precision)},
                {"device", device().name},
                {"products", to_string(device().has_own_memory ? ProductPath::kNative
                                                               : product_path(precision))},
                {"estimated_buffer_bytes",
                 estimate_memory(s.config(), choice.strategy, s.env.world_size, place).buffers()}});
  }
  return common::strategy_named(s.strategy).value();
}

// Says what of `offload` has no effect here, by name.
void log_idle_offload(const RankState& s) {
  const common::OffloadConfig& offload = s.config().offload;
  const std::array<std::pair<const char*, common::OffloadTarget>, 3> parts = {
      {{"optimizer", offload.optimizer},
       {"parameters", offload.parameters},
       {"activations", offload.activations}}};
  for (const auto& [part, target] : parts) {
    if (target != common::OffloadTarget::kCpu) continue;
    s.log.warning("no effect", {{"field", std::string("train.offload.").append(part)},
                                {"message",
                                 "cpu: these ranks compute on the CPU, so it is in the "
                                 "CPU's memory anyway"}});
  }
}

// A file of `num_bytes` for what `part` of offload names; null if there is nothing to hold, which
// is said as `why_nothing`.
std::unique_ptr<SwapFile> open_swap_file(RankState& s, const std::string& part, int64_t num_bytes,
                                         const char* why_nothing) {
  if (num_bytes == 0) {
    if (s.is_rank0()) {
      s.log.warning("no effect", {{"field", "train.offload." + part}, {"message", why_nothing}});
    }
    return nullptr;
  }
  const std::string& folder = s.config().offload.nvme_path;
  Result<CreatedSwapFile> created = create_swap_file(folder, num_bytes);
  std::optional<RunFailure> failure;
  if (!created) {
    failure = to_failure(ExitCode::kInvalidConfig, created.error());
    failure->message = "train.offload.nvmePath: " + failure->message;
  }
  agree(*s.collective, failure, "preparing train.offload.nvmePath");
  s.log.info("offload", {{"part", part},
                         {"bytes", num_bytes},
                         {"folder", folder},
                         {"io", created->is_direct ? "direct" : "page cache"}});
  return std::move(created->file);
}

// The file for offloaded optimizer state; null if there is none.
std::unique_ptr<SwapFile> open_optimizer_file(RankState& s, const ParallelismOptions& options) {
  if (s.config().offload.optimizer != common::OffloadTarget::kNvme) return nullptr;
  return open_swap_file(s, "optimizer", offloaded_bytes(options, s.env.rank, s.env.world_size),
                        "nvme: this optimizer keeps nothing in fp32");
}

void build_decoder(RankState& s) {
  const common::TrainConfig& config = s.config();
  const bool offloads = config.offload.activations == common::OffloadTarget::kNvme;
  s.decoder = std::make_unique<Decoder>(
      config.model, BatchShape{micro_batch_rows(config), config.data.sequence_length},
      config.activation_checkpointing, config.precision, offloads, config.lora);
  if (!offloads) return;
  const int64_t record_bytes = s.decoder->saved_record_bytes();
  std::unique_ptr<SwapFile> file =
      open_swap_file(s, "activations", s.decoder->num_saved_records() * record_bytes,
                     "nvme: what at most two layers save stays in memory");
  if (file == nullptr) return;
  s.decoder->store_saved_in(std::make_unique<ActivationStore>(std::move(file), record_bytes));
}

FillFirstWeights build_model(RankState& s) {
  build_decoder(s);
  if (s.is_rank0()) log_idle_offload(s);
  build_parallelism(s, agree_on_strategy(s));
  fill_base_weights(s);
  open_teacher(s);
  return [&s] { fill_first_weights(s); };
}

// True if a checkpoint found in the output is this run's to go on from.
bool may_resume(const RankState& s) {
  return s.config().checkpoint.resume || s.env.output_mode == OutputMode::kResume;
}

}  // namespace

void build_parallelism(RankState& s, common::Strategy strategy) {
  const common::TrainConfig& config = s.config();
  common::ParallelismConfig parallelism = config.parallelism;
  parallelism.strategy = strategy;
  std::vector<int64_t> unit_elems;
  unit_elems.reserve(s.units.size());
  for (const Unit& unit : s.units) unit_elems.push_back(unit.num_elems);
  std::vector<bool> frozen = config.frozen;
  if (!frozen.empty()) frozen.resize(unit_elems.size(), false);  // adapters are trained
  const ParallelismOptions options = {.config = parallelism,
                                      .unit_elems = unit_elems,
                                      .frozen = frozen,
                                      .num_base = config.lora.is_on() ? s.num_model_units() : 0,
                                      .num_micro_batches = config.batch.num_micro_batches(),
                                      .num_moments = num_moments(config.optimizer),
                                      .dtype = config.precision};
  s.parallelism = make_parallelism(options, *s.collective, open_optimizer_file(s, options));
  s.optimizer =
      make_optimizer(config.optimizer, decay_ranges(s.units, config.optimizer.decay_matrices_only));
  // The norm is over what is trained.
  for (std::size_t unit = 0; unit < unit_elems.size(); ++unit) {
    if (is_frozen(config, static_cast<int64_t>(unit))) unit_elems[unit] = 0;
  }
  s.global_norm.emplace(*s.collective, unit_elems);
}

void load_job(RankState& s) {
  Result<common::JobFile> job = common::load_job_file(s.env.job_path);
  const bool is_wrong = !job && job.error().code == ErrorCode::kInvalidArgument;
  s.job = value_or_raise(std::move(job),
                         is_wrong ? ExitCode::kInvalidConfig : ExitCode::kInputNotFound);
  check_job(s);
}

void check_job(RankState& s) {
  s.run = identify_run(s);
  if (s.job.ranks != s.env.world_size) {
    throw RunError({ExitCode::kInvalidConfig,
                    "ranks: the job is for " + std::to_string(s.job.ranks) +
                        " ranks, but WORLD_SIZE is " + std::to_string(s.env.world_size),
                    "start as many ranks as the job names"});
  }
  const int64_t num_micro_batches = s.config().batch.num_micro_batches();
  if (num_micro_batches % s.env.world_size != 0) {
    throw RunError({ExitCode::kInvalidConfig,
                    std::to_string(num_micro_batches) +
                        " micro-batches per step cannot be shared equally by " +
                        std::to_string(s.env.world_size) + " ranks",
                    "choose a number of ranks that divides the micro-batches of a step"});
  }
}

OutputVerdict prepare_folder(const RankState& s, Disk& disk) {
  if (!s.is_rank0()) return {};
  const Result<bool> finished = prepare(s, disk);
  if (finished) return {.failure = {}, .finished = *finished};
  switch (finished.error().code) {
    case ErrorCode::kAlreadyExists:
      return {to_failure(ExitCode::kOutputFinished, finished.error())};
    case ErrorCode::kConflict:
      return {to_failure(ExitCode::kInvalidConfig, finished.error())};
    default:
      return {to_failure(ExitCode::kOutputUnwritable, finished.error())};
  }
}

Start start_up(RankState& s, const OutputVerdict& output, Disk& disk, StatusBoard& board) {
  return start_up(s, output, disk, board, [&s, &disk, &board] {
    fetch_inputs(s, board, may_resume(s));
    s.units = model_units(s.config().model, s.config().lora);
    open_pretrained(s);
    read_what_export_takes_over(s);
    open_data(s, disk, board);
    find_pad_token(s);
    log_memory(s.log, "start");
    return build_model(s);
  });
}

Start start_up(RankState& s, const OutputVerdict& output, Disk& disk, StatusBoard& board,
               const BuildModel& build) {
  meet(s);
  board.set_backend(s.collective->topology().backend);
  agree(*s.collective, output.failure, "preparing the output folder");
  const std::string finished = output.finished ? "finished" : "";
  if (!gather_texts(*s.collective, finished, "output state").front().empty()) {
    return Start::kAlreadyFinished;
  }
  require_shared_output(s, disk);
  FillFirstWeights fill = build();
  if (prepare_reference(s, disk, board, fill)) fill = [] {};
  resume_or_initialize(s, disk, may_resume(s), std::move(fill));
  if (!s.config().lora.merge) s.pretrained.reset();  // a merge reads the model once more
  s.adapter.reset();
  log_memory(s.log, "loaded");
  Result<void> cut;
  const MetricsCut kept = {.step = s.step, .is_evaluated = s.evaluations.last_step == s.step};
  if (s.is_rank0()) cut = cut_metrics(disk, s.env.output, kept);
  agree_on(*s.collective, std::move(cut), ExitCode::kOutputUnwritable, "cutting metrics.jsonl");
  board.set_plan(s.strategy, s.step, s.config().steps);
  return Start::kTrain;
}

}  // namespace lockstep::runtime

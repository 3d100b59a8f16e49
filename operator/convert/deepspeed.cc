#include "operator/convert/deepspeed.h"

#include <utility>

#include "operator/convert/trackers.h"

namespace lockstep::convert {
namespace {

using nlohmann::json;

constexpr const char* kGlobal = "train.batch.globalBatchSize";
constexpr const char* kMicro = "train.batch.microBatchSize";
constexpr const char* kAccumulation = "train.batch.accumulationSteps";

// Note [Batches of DeepSpeed]
// global = micro-batch * accumulation * ranks there as here, and any two of the first three give
// the third once the ranks are known. All three give the ranks: then accumulation is left out,
// for it follows, and ranks may change. One alone: accumulation is 1.

std::optional<Verdict> take_global(const json& value, Draft& draft) {
  if (is_auto(value)) return mapped("follows: micro-batch x accumulation x ranks");
  const std::optional<int64_t> global = whole(value);
  if (!global || *global < 1) return broken("must be a number of samples, found " + value.dump());
  const std::optional<int64_t> micro = draft.count("train_micro_batch_size_per_gpu");
  const std::optional<int64_t> steps = draft.count("gradient_accumulation_steps");
  Verdict verdict = draft.map(kGlobal, *global);
  if (micro && steps && *micro > 0 && *steps > 0) {
    const int64_t per_rank = *micro * *steps;
    if (*global % per_rank != 0) {
      return broken(std::string("is not a multiple of micro-batch x accumulation = ")
                        .append(std::to_string(per_rank)));
    }
    Verdict ranks = draft.assume("ranks", *global / per_rank,
                                 "train_batch_size / (micro-batch x gradient_accumulation_steps)");
    if (ranks.fate == Fate::kRefused) return ranks;
  }
  return verdict;
}

std::optional<Verdict> take_micro(const json& value, Draft& draft) {
  if (!is_auto(value)) return draft.map(kMicro, value);
  if (draft.count("train_batch_size") && draft.count("gradient_accumulation_steps")) {
    return mapped("follows: global batch / (accumulation x ranks)");
  }
  draft.fill_in(kMicro, 1, "the training script's per_device_train_batch_size");
  return mapped("the training script's");
}

std::optional<Verdict> take_accumulation(const json& value, Draft& draft) {
  const bool follows =
      draft.count("train_batch_size") && draft.count("train_micro_batch_size_per_gpu");
  if (follows) return mapped("follows: global batch / (micro-batch x ranks)");
  if (!is_auto(value)) return draft.map(kAccumulation, value);
  draft.fill_in(kAccumulation, 1, "the training script's gradient_accumulation_steps");
  return mapped("the training script's");
}

void assume_batch(Draft& draft) {
  const bool global = draft.find(kGlobal) != nullptr;
  const bool micro = draft.find(kMicro) != nullptr;
  if (!global && !micro && draft.find(kAccumulation) != nullptr) {
    draft.fill_in(kMicro, 1, "the training script's per_device_train_batch_size");
  }
  if (global != micro) draft.assume(kAccumulation, 1, "DeepSpeed's default");
}

bool is_true(const Draft& draft, const char* key) {
  const json* found = draft.key(key);
  return found != nullptr && *found == true;
}

std::optional<Verdict> take_fp16(const json& value, Draft& draft) {
  if (!is_auto(value)) {
    if (is_true(draft, "bf16.enabled")) return broken("and bf16.enabled exclude each other");
    return draft.map("train.precision", "fp16");
  }
  if (is_true(draft, "bf16.enabled")) return mapped("off: bf16 is on");
  draft.fill_in("train.precision", "fp32", "the training script's fp16 and bf16");
  return mapped("the training script's");
}

std::optional<Verdict> take_bf16(const json& value, Draft& draft) {
  if (!is_auto(value)) return draft.map("train.precision", "bf16");
  if (is_true(draft, "fp16.enabled")) return mapped("off: fp16 is on");
  draft.fill_in("train.precision", "fp32", "the training script's fp16 and bf16");
  return mapped("the training script's");
}

// A field of lossScale, which counts under fp16 only.
Take loss_scale(const char* field) {
  return [field](const json& value, Draft& draft) -> std::optional<Verdict> {
    const std::string path = std::string("train.lossScale.").append(field);
    if (is_true(draft, "fp16.enabled")) return draft.map(path, value);
    return changed("counts under fp16 only: with precision fp16, set " + path);
  };
}

Table precision_rows() {
  constexpr const char* kMasters = "masters and gradients are always fp32";
  return {
      {"fp16", section_if_enabled()},
      {"fp16.enabled", take_fp16},
      {"fp16.loss_scale", loss_scale("static")},
      {"fp16.initial_scale_power", loss_scale("initialPower")},
      {"fp16.loss_scale_window", loss_scale("window")},
      {"fp16.hysteresis", loss_scale("hysteresis")},
      {"fp16.min_loss_scale", loss_scale("min")},
      {"fp16.consecutive_hysteresis",
       refuse_unless_off("hysteresis is full again only when the scale is doubled")},
      {"fp16.auto_cast", without_effect("tokens come in, there is nothing to cast")},
      {"fp16.fused_mode", without_effect("there is one implementation here")},
      {"fp16.fp16_master_weights_and_grads", refuse_unless_off(kMasters)},
      {"bf16", section_if_enabled()},
      {"bf16.enabled", take_bf16},
      {"bf16.immediate_grad_update", without_effect("gradients are always summed in fp32")},
      {"bf16.check_grad_overflow", always(true, "a step that is not finite is always skipped")},
      {"bf16.bf16_master_weights_and_grads", refuse_unless_off(kMasters)},
      {"bf16.bf16_optimizer_states", refuse_unless_off(kMasters)},
      {"bfloat16", section_if_enabled()},
      {"bfloat16.enabled", take_bf16},
      {"amp", refuse_unless_off("there is no Apex AMP here; precision is bf16 or fp16")},
      {"torch_autocast", refuse_unless_off("there is no autocast here; precision is bf16 or fp16")},
      {"data_types.grad_accum_dtype", always("fp32", "gradients are always summed in fp32")},
      {"communication_data_type",
       always("fp32",
              "gradients travel in fp32; bf16: parallelism.reduceDtype and reduction: fast")},
      {"seq_parallel_comm_data_type", without_effect("there is no sequence parallelism here")},
      {"prescale_gradients", always(false, "sums are taken in fp32 and divided once")},
      {"gradient_predivide_factor", always(1.0, "sums are taken in fp32 and divided once")},
      {"sparse_gradients", always(false, "gradients are always dense: the same numbers")},
  };
}

std::optional<Verdict> take_clipping(const json& value, Draft& draft) {
  return draft.map("train.optimizer.gradientClip", is_auto(value) ? json(1.0) : value);
}

std::optional<Verdict> take_steps_per_print(const json& value, Draft& draft) {
  const std::optional<int64_t> steps = whole(value);
  if (!steps) return broken("must be a number of steps, found " + value.dump());
  if (*steps < 1 || *steps > 1000000000) {
    return changed("a line every logging.everySteps steps, 10");
  }
  return draft.map("train.logging.everySteps", *steps);
}

std::optional<Verdict> take_tensorboard(const json& value, Draft& draft) {
  return draft.map("train.logging.tensorboard", value);
}

std::optional<Verdict> take_tracker(const json& value, Draft& draft) {
  if (is_off(value) || find_path(value, "enabled") == nullptr) return mapped("off, as here");
  return change_tracker(draft);
}

std::optional<Verdict> take_profiled_step(const json& value, Draft& draft) {
  return draft.change("train.logging.profile.fromStep", value, "a trace for Perfetto");
}

Table logging_rows() {
  constexpr const char* kFiles = "files are in the output's tensorboard folder";
  constexpr const char* kUtilisation = "mfu and a trace of all ranks instead";
  Table table = {
      {"steps_per_print", take_steps_per_print},
      {"wall_clock_breakdown", always(true, "every step is split into its parts")},
      {"memory_breakdown", without_effect("lockstep estimate, and memory in metrics.jsonl")},
      {"dump_state", without_effect("checkpoints and metrics.jsonl hold the state")},
      {"tensorboard", section_if_enabled()},
      {"tensorboard.enabled", take_tensorboard},
      {"tensorboard.output_path", without_effect(kFiles)},
      {"tensorboard.job_name", without_effect(kFiles)},
      {"wandb", take_tracker},
      {"comet", take_tracker},
      {"csv_monitor", change_unless_off("metrics.jsonl has a line per logged step")},
      {"comms_logger", change_unless_off("lockstep bench collectives, and the parts of a step")},
      {"flops_profiler", section_if_enabled()},
      {"flops_profiler.enabled", change_unless_off(kUtilisation)},
      {"flops_profiler.profile_step", take_profiled_step},
      {"autotuning", change_unless_off("lockstep estimate shows what fits")},
      {"compile", change_unless_off("kernels are compiled ahead; there is nothing to trace")},
  };
  for (const char* const key :
       {"recompute_fwd_factor", "module_depth", "top_modules", "detailed", "output_file"}) {
    table.push_back({std::string("flops_profiler.").append(key), without_effect(kUtilisation)});
  }
  return table;
}

std::optional<Verdict> take_cpu_checkpointing(const json& value, Draft& draft) {
  if (is_off(value)) return mapped("off, as here");
  return draft.map("train.offload.activations", "cpu");
}

std::optional<Verdict> take_checkpointing(const json& value, Draft& draft) {
  if (!value.is_object()) return std::nullopt;
  draft.assume("train.activationCheckpointing", "block",
               "activation_checkpointing is given; the script decides where");
  return std::nullopt;
}

Table memory_rows() {
  const std::string activations = "activation_checkpointing.";
  constexpr const char* kPerLayer = "a layer's input is kept, wherever it lies";
  Table table = {
      {"activation_checkpointing", take_checkpointing},
      {activations + "cpu_checkpointing", take_cpu_checkpointing},
      {activations + "partition_activations",
       change_unless_off("ranks hold different samples: there is nothing to share")},
      {"checkpoint.tag_validation", without_effect("checkpoints are always checked")},
      {"checkpoint.load_universal",
       without_effect("every checkpoint is read by any number of ranks")},
      {"checkpoint.use_node_local_storage",
       refuse_unless_off("checkpoints need storage that all ranks share")},
      {"checkpoint.parallel_write", without_effect("every rank writes its part")},
      {"nebula", change_unless_off("checkpoint.async writes behind training")},
      {"elasticity", change_unless_off("ranks may change at any time, the global batch stays")},
      {"disable_allgather", always(false, "updated weights are always gathered")},
      {"zero_allow_untested_optimizer", without_effect("every optimizer is sharded alike")},
      {"zero_force_ds_cpu_optimizer", without_effect("there is one implementation here")},
      {"dataloader_drop_last",
       always(true, "an incomplete global batch at the end is dropped and counted")},
      {"vocabulary_size", without_effect("model.config.vocab_size decides")},
      {"graph_harvesting", change_unless_off("kernels are not captured in graphs here")},
  };
  for (const char* const key : {"number_checkpoints", "contiguous_memory_optimization",
                                "synchronize_checkpoint_boundary", "profile"}) {
    table.push_back({activations + key, without_effect(kPerLayer)});
  }
  for (const char* const key :
       {"aio.block_size", "aio.queue_depth", "aio.thread_count", "aio.intra_op_parallelism",
        "aio.single_submit", "aio.overlap_events", "aio.use_gds"}) {
    table.push_back({key, without_effect("pieces and their overlap are the runtime's choice")});
  }
  return table;
}

Table batch_rows() {
  return {
      {"train_batch_size", take_global},
      {"train_micro_batch_size_per_gpu", take_micro},
      {"gradient_accumulation_steps", take_accumulation},
      {"gradient_clipping", take_clipping},
  };
}

// What makes the job another one.
Table refused_rows() {
  const auto named = [](const std::string& what) {
    return refuse_unless_off(what + " is not supported by this version");
  };
  const auto sized = [](const std::string& what) {
    return refuse_above_one(what + " is not supported by this version");
  };
  return {
      {"tensor_parallel.autotp_size", sized("tensor parallelism")},
      {"tensor_parallel.tp_size", sized("tensor parallelism")},
      {"tensor_parallel.dtype", without_effect("precision decides")},
      {"tensor_parallel_size", sized("tensor parallelism")},
      {"sequence_parallel_size", sized("sequence parallelism")},
      {"pipeline", named("pipeline parallelism")},
      {"expert_parallel", sized("expert parallelism")},
      {"moe", named("expert parallelism")},
      {"use_data_before_expert_parallelism", named("expert parallelism")},
      {"hybrid_engine", named("generation in training (hybrid engine)")},
      {"sparse_attention", named("sparse attention")},
      {"data_efficiency", named("data efficiency (curriculum, random token dropping)")},
      {"curriculum_learning", named("curriculum learning")},
      {"progressive_layer_drop", named("progressive layer drop")},
      {"eigenvalue", named("eigenvalue estimation")},
      {"compression_training", named("compression while training")},
      {"quantize_training", named("quantization while training")},
  };
}

// What DeepSpeed does where a configuration says nothing.
void assume_deepspeed_defaults(Draft& draft) {
  assume_batch(draft);
  assume_deepspeed_optimizer_defaults(draft);
  draft.assume("train.optimizer.gradientClip", 0.0, "DeepSpeed does not clip unless told");
  draft.assume("train.parallelism.strategy", "ddp", "DeepSpeed's stage 0");
}

}  // namespace

const Table& deepspeed_table() {
  static const Table table =
      joined({batch_rows(), precision_rows(), deepspeed_optimizer_rows(), deepspeed_zero_rows(),
              logging_rows(), memory_rows(), refused_rows()});
  return table;
}

Conversion convert_deepspeed(const common::Document& document) {
  Draft draft;
  Conversion conversion{.tool = "DeepSpeed"};
  take_all(deepspeed_table(), document, draft, conversion.notes, conversion.problems);
  assume_deepspeed_defaults(draft);
  move_into(conversion, std::move(draft));
  return conversion;
}

}  // namespace lockstep::convert

#include "operator/convert/instructlab.h"

#include <algorithm>
#include <utility>

#include "operator/convert/hub.h"

namespace lockstep::convert {
namespace {

using nlohmann::json;

constexpr const char* kRanks = "ranks";

std::optional<Verdict> take_model_path(const json& value, Draft& draft) {
  return take_pretrained(value, draft);
}

std::optional<Verdict> take_chats(const json& value, Draft& draft) {
  if (const Misfit why = misfit("train.task", "sft"); !why.text.empty()) {
    return refused("InstructLab's data are chats: " + why.text);
  }
  draft.assume("train.task", "sft", "InstructLab's data are chats");
  return take_dataset("train.data.train", value, draft);
}

std::optional<Verdict> take_il_backend(const json& value, Draft& draft) {
  const std::string field = "train.parallelism.strategy";
  if (value == "fsdp") return draft.map(field, "zero3", "FSDP");
  if (value == "deepspeed") return draft.map(field, "zero2", "InstructLab's stage");
  return broken("must be fsdp or deepspeed, found " + value.dump());
}

std::optional<Verdict> take_il_offload(const json& value, Draft& draft) {
  if (!value.is_boolean()) return broken("must be true or false, found " + value.dump());
  return value.get<bool>() ? draft.map("train.offload.optimizer", "cpu") : mapped("off, as here");
}

std::optional<Verdict> take_lora_rank(const json& value, Draft& draft) {
  if (value == 0) return mapped("off, as here");
  return draft.map("train.lora.rank", value);
}

Take with_lora(Take take) {
  return [take = std::move(take)](const json& value, Draft& draft) -> std::optional<Verdict> {
    const json* rank = draft.number("train.lora_rank");
    if (rank == nullptr || *rank == 0) return mapped("of no effect: lora_rank is 0");
    return take(value, draft);
  };
}

std::optional<Verdict> take_save_samples(const json& value, Draft& draft) {
  const std::string field = "train.checkpoint.everySteps";
  const std::optional<int64_t> samples = whole(value);
  if (!samples) return broken("must be a number of samples, found " + value.dump());
  if (*samples <= 0) return draft.map(field, 0);
  const std::optional<int64_t> per_step = draft.count("train.effective_batch_size");
  if (!per_step || *per_step < 1) {
    return refused("counts samples, and no effective_batch_size says how many a step takes");
  }
  return draft.change(field, std::max<int64_t>(*samples / *per_step, 1),
                      "in steps: samples / effective_batch_size");
}

std::optional<Verdict> take_keep_last(const json& value, Draft& draft) {
  if (!value.is_boolean()) return broken("must be true or false, found " + value.dump());
  if (!value.get<bool>()) return changed("checkpoint.keep says how many stay");
  return draft.map("train.checkpoint.keep", 1);
}

std::optional<Verdict> take_il_checkpointing(const json& value, Draft& draft) {
  if (!value.is_boolean()) return broken("must be true or false, found " + value.dump());
  return draft.map("train.activationCheckpointing", value.get<bool>() ? "block" : "none");
}

std::optional<Verdict> take_il_stage(const json& value, Draft& draft) {
  const std::optional<int64_t> stage = whole(value);
  if (!stage || *stage < 0 || *stage > 3)
    return broken("must be 0, 1, 2 or 3, found " + value.dump());
  const json strategies = {"ddp", "zero1", "zero2", "zero3"};
  return draft.map("train.parallelism.strategy", strategies.at(static_cast<size_t>(*stage)));
}

Table train_rows() {
  const std::string root = "train.";
  constexpr const char* kOutput = "lockstep run --output, or spec.output";
  Table table = {
      {root + "model_path", take_model_path},
      {root + "data_path", take_chats},
      {root + "ckpt_output_dir", without_effect(kOutput)},
      {root + "data_output_dir", without_effect(kOutput)},
      {root + "training_journal", without_effect(kOutput)},
      {root + "max_seq_len", same("train.data.sequenceLength")},
      {root + "max_batch_len",
       without_effect("counts tokens; batch.microBatchSize counts samples of sequenceLength")},
      {root + "num_epochs", same("train.epochs")},
      {root + "effective_batch_size", same("train.batch.globalBatchSize")},
      {root + "save_samples", take_save_samples},
      {root + "keep_last_checkpoint_only", take_keep_last},
      {root + "checkpoint_at_epoch", without_effect("by steps: checkpoint.everySteps")},
      {root + "nproc_per_node", same(kRanks, "on one machine")},
      {root + "num_gpus", same(kRanks, "on one machine")},
      {root + "distributed", without_effect("ranks say so")},
      {root + "device", without_effect("ranks compute on what resources give them")},
      {root + "pipeline", without_effect("there is one way to train here")},
      {root + "distributed_backend", take_il_backend},
      {root + "deepspeed_cpu_offload_optimizer", take_il_offload},
      {root + "fsdp_cpu_offload_optimizer", take_il_offload},
      {root + "lora_rank", take_lora_rank},
      {root + "is_padding_free", without_effect("samples are packed: data.packing")},
      {root + "disable_flash_attn", without_effect("attention is the runtime's own")},
      {root + "use_dolomite", without_effect("attention is the runtime's own")},
  };
  return table;
}

Table argument_and_phase_rows() {
  Table table;
  for (const char* const group : {"train.", "train.additional_args."}) {
    const std::string at = group;
    table.push_back({at + "learning_rate", same("train.optimizer.lr")});
    table.push_back({at + "warmup_steps", same("train.schedule.warmupSteps")});
    table.push_back({at + "random_seed", same("train.seed")});
    table.push_back(
        {at + "deepspeed_cpu_offload_optimizer_pin_memory", same("train.offload.pinMemory")});
    table.push_back({at + "deepspeed_cpu_offload_optimizer_ratio",
                     always(1, "all of the optimizer's state is moved, or none")});
    table.push_back({at + "lora_alpha", with_lora(same("train.lora.alpha"))});
    table.push_back({at + "lora_dropout", with_lora(same("train.lora.dropout"))});
    table.push_back({at + "lora_target_modules", with_lora(same("train.lora.targets"))});
    table.push_back({at + "lora_quantize_dtype",
                     with_lora(refuse_unless_off("quantized weights are not supported by this "
                                                 "version"))});
  }
  for (const char* const key :
       {"phased_mt_bench_judge", "phased_base_dir", "phased_phase1_data", "phased_phase2_data",
        "phased_phase1_effective_batch_size", "phased_phase1_num_epochs",
        "phased_phase1_samples_per_save", "phased_phase1_learning_rate",
        "phased_phase2_effective_batch_size", "phased_phase2_num_epochs",
        "phased_phase2_samples_per_save", "phased_phase2_learning_rate"}) {
    table.push_back(
        {std::string("train.").append(key), without_effect("a phase is a job of its own")});
  }
  return table;
}

// The shape of guides, which the library behind them does not have.
Table guide_rows() {
  const std::string root = "train.";
  return {
      {"model.base", take_model_path},
      {"model.max_seq_length", same("train.data.sequenceLength")},
      {root + "batch_size", same("train.batch.microBatchSize", "per rank")},
      {root + "gradient_accumulation_steps",
       [](const json& value, Draft& draft) -> std::optional<Verdict> {
         if (draft.key("train.effective_batch_size") != nullptr && value.is_number()) {
           return mapped("follows: global batch / (micro-batch x ranks)");
         }
         return draft.map("train.batch.accumulationSteps", value);
       }},
      {root + "gradient_checkpointing", take_il_checkpointing},
      {root + "mixed_precision", same("train.precision")},
      {root + "deepspeed", section_if_enabled()},
      {root + "deepspeed.enabled", always(true, "zero_stage says how")},
      {root + "deepspeed.zero_stage", take_il_stage},
      {root + "deepspeed.config_path",
       [](const json& value, Draft&) {
         return std::optional(refused("is a file of its own: import " + value.dump() + " too"));
       }},
  };
}

}  // namespace

const Table& instructlab_table() {
  static const Table table = [] {
    Table all = joined({train_rows(), argument_and_phase_rows(), guide_rows()});
    for (const char* const key :
         {"chat", "evaluate", "general", "generate", "models", "serve", "rag"}) {
      all.push_back({key, without_effect("is of another ilab command: nothing to train")});
    }
    all.push_back({"metadata", without_effect("describes the machine of ilab")});
    all.push_back({"version", without_effect("of InstructLab's own file")});
    return all;
  }();
  return table;
}

Conversion convert_instructlab(const common::Document& document) {
  Draft draft;
  Conversion conversion{.tool = "InstructLab"};
  take_all(instructlab_table(), document, draft, conversion.notes, conversion.problems);
  constexpr const char* kDefault = "InstructLab's default";
  draft.assume("train.precision", "bf16", kDefault);
  draft.assume("train.optimizer.betas", {0.9, 0.95}, kDefault);
  draft.assume("train.optimizer.weightDecay", 0.0, kDefault);
  draft.fill_in("train.optimizer.lr", 2e-5, "InstructLab keeps it in train.additional_args");
  draft.fill_in("train.schedule.name", "constant", "InstructLab's is cosine or constant");
  move_into(conversion, std::move(draft));
  return conversion;
}

}  // namespace lockstep::convert

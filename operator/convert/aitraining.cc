#include "operator/convert/aitraining.h"

#include <algorithm>
#include <utility>

#include "operator/convert/aitraining_keys.h"
#include "operator/convert/aitraining_tuning.h"
#include "operator/convert/hub.h"
#include "operator/convert/splits.h"
#include "operator/convert/trackers.h"

namespace lockstep::convert {
namespace {

using common::Document;
using nlohmann::json;

std::optional<Verdict> take_task(const json& value, Draft& draft) {
  const std::string named = value.is_string() ? value.get<std::string>() : "";
  if (named.empty()) return broken("must be a task such as llm-sft, found " + value.dump());
  if (named == "llm" && parameter(draft, "trainer") != nullptr) return mapped("trainer says which");
  static const std::vector<std::string> known = {"pretrain", "sft", "dpo",  "orpo",
                                                 "reward",   "ppo", "grpo", "distill"};
  const std::string task = task_of(named);
  if (std::find(known.begin(), known.end(), task) == known.end()) {
    return refused(named + " is no training of a decoder on text");
  }
  if (task == "ppo" || task == "grpo")
    return refused(task + ": reinforcement learning is not supported by this version");
  return draft.map("train.task", task);
}

std::optional<Verdict> take_trainer(const json& value, Draft& draft) {
  const bool is_other = value.is_string() && task_of(value.get<std::string>()) != task_in(draft);
  if (is_other || draft.text("task").starts_with("llm-")) return mapped("is in task");
  return take_task(value, draft);
}

std::optional<Verdict> take_mixed(const json& value, Draft& draft) {
  return draft.map("train.precision", is_off(value) ? json("fp32") : value);
}

std::optional<Verdict> take_ai_scheduler(const json& value, Draft& draft) {
  const std::string field = "train.schedule.name";
  if (value == "linear" || value == "cosine" || value == "constant") return draft.map(field, value);
  if (value == "constant_with_warmup") return draft.map(field, "constant");
  if (!value.is_string()) return broken("must be the name of a schedule, found " + value.dump());
  return refused("there is no schedule " + value.get<std::string>() + " here");
}

std::optional<Verdict> take_ai_optimizer(const json& value, Draft& draft) {
  if (!value.is_string()) return broken("must be the name of an optimizer, found " + value.dump());
  const auto name = value.get<std::string>();
  if (name.starts_with("adamw_torch") || name == "adamw_hf" || name == "adamw_apex_fused") {
    return draft.map("train.optimizer.name", "adamw");
  }
  if (name == "sgd" || name == "adafactor" || name == "lion") {
    return draft.map("train.optimizer.name", name);
  }
  return refused("there is no optimizer " + name + " here");
}

std::optional<Verdict> take_backend(const json& value, Draft& draft) {
  if (value == "ddp") return draft.map("train.parallelism.strategy", "ddp");
  if (value == "deepspeed") {
    return draft.map("train.parallelism.strategy", "zero3",
                     "AITraining runs DeepSpeed with stage 3");
  }
  return broken("must be ddp or deepspeed, found " + value.dump());
}

std::optional<Verdict> take_logging_steps(const json& value, Draft& draft) {
  if (value == -1) return mapped("logging.everySteps keeps its default, 10");
  return draft.map("train.logging.everySteps", value);
}

std::optional<Verdict> take_save_strategy(const json& value, Draft& draft) {
  if (value == "steps") return mapped("save_steps says how often");
  if (value == "no") return draft.map("train.checkpoint.everySteps", 0);
  if (value == "epoch") return changed("by steps: checkpoint.everySteps");
  return broken("must be no, steps or epoch, found " + value.dump());
}

std::optional<Verdict> take_save_steps(const json& value, Draft& draft) {
  const json* strategy = parameter(draft, "save_strategy");
  if (strategy == nullptr || *strategy != "steps")
    return mapped("of no effect: save_strategy is not steps");
  return draft.map("train.checkpoint.everySteps", value);
}

std::optional<Verdict> take_block_size(const json& value, Draft& draft) {
  if (value == -1) return mapped("the length is model_max_length");
  if (value.is_array() && !value.empty()) {
    return draft.change("train.data.sequenceLength", value.front(), "one length for all samples");
  }
  return draft.map("train.data.sequenceLength", value);
}

std::optional<Verdict> take_max_length(const json& value, Draft& draft) {
  const json* block = parameter(draft, "block_size");
  if (block != nullptr && *block != -1) return mapped("block_size counts");
  return draft.map("train.data.sequenceLength", value);
}

std::optional<Verdict> take_no_checkpointing(const json& value, Draft& draft) {
  if (!value.is_boolean()) return broken("must be true or false, found " + value.dump());
  return draft.map("train.activationCheckpointing", value.get<bool>() ? "none" : "block");
}

std::optional<Verdict> take_chat_template(const json& value, Draft& draft) {
  if (is_off(value)) return mapped("plain text, as here");
  if (!has_conversations(draft) && !has_pairs(draft)) {
    return refused("chat templates need task sft");
  }
  if (value == "tokenizer") return mapped("the template beside the tokenizer");
  return refused("put the template beside the tokenizer, as chat_template.jinja");
}

// Under a chat template it holds messages.
std::optional<Verdict> take_text_column(const json& value, Draft& draft) {
  if (has_pairs(draft)) return draft.map("train.data.columns.chosen", value);
  if (!has_conversations(draft)) return draft.map("train.data.columns.text", value);
  if (is_on(draft, "chat_template")) return draft.map("train.data.columns.messages", value);
  const Verdict all = draft.assume("train.data.loss", "all", "texts without a chat template");
  if (all.fate == Fate::kRefused) return all;
  return draft.map("train.data.columns.text", value);
}

// A column of pairs, which counts under tasks that learn from them only.
Take pair_column(const char* field) {
  return [field](const json& value, Draft& draft) -> std::optional<Verdict> {
    if (is_off(value)) return mapped("off, as here");
    if (!has_pairs(draft)) return refused("needs task dpo, orpo or reward");
    return draft.map(std::string("train.data.columns.").append(field), value);
  };
}

std::optional<Verdict> take_dpo_beta(const json& value, Draft& draft) {
  if (task_in(draft) != "dpo") return mapped("of no effect: the task is not dpo");
  return draft.map("train.preference.beta", value);
}

std::optional<Verdict> take_data_path(const json& value, Draft& draft) {
  return take_dataset("train.data.train", value, draft);
}

Table data_rows() {
  constexpr const char* kConvert = "data come as text, rows or tokens; convert them before";
  Table table = {
      {"data_path", take_data_path},
      {"path", take_data_path},
      {"train_split",
       [](const json& value, const Draft& draft) {
         return std::optional(take_train_split(value, parameter(draft, "valid_split")));
       }},
      {"valid_split",
       [](const json& value, Draft& draft) {
         return std::optional(take_valid_split(value, parameter(draft, "train_split"), draft));
       }},
      {"text_column", take_text_column},
      {"prompt_text_column", pair_column("prompt")},
      {"rejected_text_column", pair_column("rejected")},
      {"chat_template", take_chat_template},
      {"chat_format", take_chat_template},
      {"max_samples", refuse_unless_off("give a file with so many samples")},
      {"add_eos_token", always(true, "documents of packed samples do not see each other")},
      {"block_size", take_block_size},
      {"model_max_length", take_max_length},
      {"padding", without_effect("the loss leaves out what a short sample is filled up with")},
      {"packing", same("train.data.packing")},
      {"token_weights", refuse_unless_off("every token weighs the same here")},
  };
  for (const char* const key : {"auto_convert_dataset", "use_sharegpt_mapping",
                                "sharegpt_mapping_enabled", "runtime_mapping", "map_eos_token"}) {
    table.push_back({key, refuse_unless_off(kConvert)});
  }
  table.push_back({"apply_chat_template", always(true, "only under a chat template")});
  table.push_back({"conversation_extension", refuse_above_one(kConvert)});
  table.push_back({"suggested_chat_template", without_effect("only under a chat template")});
  return table;
}

Table training_rows() {
  constexpr const char* kAttention = "attention is the runtime's own: exact, without a mask";
  return {
      {"model", take_pretrained},
      {"base_model", take_pretrained},
      {"epochs", same("train.epochs")},
      {"batch_size", same("train.batch.microBatchSize", "per rank")},
      {"gradient_accumulation", same("train.batch.accumulationSteps")},
      {"lr", same("train.optimizer.lr")},
      {"optimizer", take_ai_optimizer},
      {"weight_decay", same("train.optimizer.weightDecay")},
      {"max_grad_norm", same("train.optimizer.gradientClip")},
      {"scheduler", take_ai_scheduler},
      {"warmup_ratio", same("train.schedule.warmupRatio")},
      {"mixed_precision", take_mixed},
      {"seed", same("train.seed")},
      {"disable_gradient_checkpointing", take_no_checkpointing},
      {"use_flash_attention_2", without_effect(kAttention)},
      {"attn_implementation", without_effect(kAttention)},
      {"auto_find_batch_size",
       change_unless_off("lockstep estimate shows what fits before anything starts")},
      {"distributed_backend", take_backend},
      {"ddp_timeout", same("train.communication.timeoutSeconds")},
      {"logging_steps", take_logging_steps},
      {"eval_strategy", without_effect("by steps: evaluation.everySteps")},
      {"evaluation_strategy", without_effect("by steps: evaluation.everySteps")},
      {"save_strategy", take_save_strategy},
      {"save_steps", take_save_steps},
      {"save_total_limit", same("train.checkpoint.keep")},
      {"resume_from_checkpoint", same("train.checkpoint.resume")},
      {"quantization", refuse_unless_off("quantized weights are not supported by this version")},
      {"unsloth", change_unless_off("kernels are the runtime's own")},
      {"trust_remote_code", change_unless_off("no code of a model is ever run")},
  };
}

std::optional<Verdict> take_place(const json& value, Draft&) {
  if (!value.is_string()) return broken("must be a place to run at, found " + value.dump());
  if (value.get<std::string>().starts_with("local")) return mapped("lockstep run is here");
  return refused("jobs run here or on Kubernetes, not at " + value.get<std::string>());
}

// What belongs to tasks, sweeps, evaluations and services that are not here.
Table other_rows() {
  constexpr const char* kOneLength = "prompt and answer share data.sequenceLength";
  Table table = {
      {"task", take_task},
      {"trainer", take_trainer},
      {"train", always(true, "lockstep run trains")},
      {"backend", take_place},
      {"project_name",
       [](const json& value, Draft& draft) { return std::optional(take_job_name(value, draft)); }},
      {"log", take_named_tracker},
      {"push_to_hub",
       refuse_unless_off("the model stays in the output's folder: upload it from there")},
      {"username", without_effect("only for push_to_hub")},
      {"token", without_effect("a secret does not belong in a manifest")},
      {"repo_id", without_effect("only for push_to_hub")},
      {"model_ref", refuse_unless_off("the reference is what training begins with: model.path")},
      {"dpo_beta", take_dpo_beta},
      {"max_prompt_length", without_effect(kOneLength)},
      {"max_completion_length", without_effect(kOneLength)},
  };
  const std::vector<std::pair<const char*, std::vector<const char*>>> groups = {
      {"sweeps are not supported by this version: run several jobs",
       {"use_sweep", "sweep_backend", "sweep_n_trials", "sweep_metric", "sweep_direction",
        "sweep_params", "wandb_sweep", "wandb_sweep_project", "wandb_sweep_entity",
        "wandb_sweep_id", "wandb_run_id"}},
      {"the loss on validation data is what is measured here",
       {"use_enhanced_eval", "eval_metrics", "eval_dataset_path", "eval_batch_size",
        "eval_save_predictions", "eval_benchmark"}},
      {"belongs to reinforcement learning, which is not supported by this version",
       {"rl_gamma", "rl_gae_lambda", "rl_kl_coef", "rl_value_loss_coef", "rl_clip_range",
        "rl_reward_fn", "rl_reward_model_path", "rl_num_ppo_epochs", "rl_batch_size",
        "rl_mini_batch_size", "rl_optimize_device_cache", "rl_env_type", "rl_env_config",
        "rl_multi_objective", "rl_reward_weights"}},
  };
  for (const auto& [why, keys] : groups) {
    for (const char* const key : keys) table.push_back({key, refuse_unless_off(why)});
  }
  return table;
}

void assume_aitraining_defaults(Draft& draft) {
  constexpr const char* kDefault = "AITraining's default";
  draft.assume("train.epochs", 1, kDefault);
  draft.assume("train.batch.microBatchSize", 2, kDefault);
  draft.assume("train.batch.accumulationSteps", 4, kDefault);
  draft.assume("train.optimizer.lr", 3e-5, kDefault);
  draft.assume("train.optimizer.betas", {0.9, 0.999}, "Transformers' default");
  draft.assume("train.optimizer.weightDecay", 0.0, kDefault);
  draft.assume("train.schedule.name", "linear", kDefault);
  const json* schedule = draft.find("train.schedule.name");
  if (schedule != nullptr && *schedule != "constant") {
    draft.assume("train.schedule.warmupRatio", 0.1, kDefault);
    draft.assume("train.schedule.minLrRatio", 0.0, "Transformers' schedules fall to 0");
  }
  assume_distillation_defaults(draft);
  draft.assume("train.activationCheckpointing", "block", kDefault);
  draft.assume("train.data.sequenceLength", 2048, kDefault);
  draft.assume("train.checkpoint.keep", 1, kDefault);
}

// Every row again for the groups of a YAML file that it may stand in.
Table grouped(const Table& rows, const std::vector<std::string>& groups) {
  Table table;
  for (const std::string& group : groups) {
    for (const Row& row : rows) table.push_back({group + row.key, row.take});
  }
  return table;
}

Table column_rows() {
  Table rows = data_rows();
  std::erase_if(rows, [](const Row& row) { return !row.key.ends_with("_column"); });
  return rows;
}

}  // namespace

Conversion convert_aitraining(const Document& document) {
  Draft draft;
  Conversion conversion{.tool = "AITraining"};
  take_all(aitraining_table(), document, draft, conversion.notes, conversion.problems);
  assume_aitraining_defaults(draft);
  move_into(conversion, std::move(draft));
  return conversion;
}

const Table& aitraining_table() {
  static const Table table = joined(
      {mlflow_variables(), grouped(other_rows(), {"", "params.", "hub."}),
       grouped(adapter_rows(), {"", "params."}), grouped(distillation_rows(), {"", "params."}),
       grouped(data_rows(), {"", "params.", "data."}), grouped(training_rows(), {"", "params."}),
       grouped(column_rows(), {"column_mapping.", "data.column_mapping."})});
  return table;
}

}  // namespace lockstep::convert

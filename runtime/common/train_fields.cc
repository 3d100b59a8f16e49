#include "runtime/common/train_fields.h"

#include <utility>

#include "runtime/common/field_builders.h"
#include "runtime/common/train_sections.h"

namespace lockstep::common {
namespace {

constexpr double kMaxSeed = 9007199254740991;  // 2^53 - 1: the largest integer that JSON keeps

// Relations of the model with other sections, as CEL over the train section.
std::vector<CelRule> model_rules() {
  return {
      {"!has(self.model.config) || !has(self.model.config.max_position_embeddings) || "
       "self.data.sequenceLength <= self.model.config.max_position_embeddings",
       "sequenceLength must be at most model.config.max_position_embeddings",
       ".data.sequenceLength"},
      {"!has(self.model.config) || self.tokenizer.type != 'bytes' || "
       "self.data.format == 'tokens' || self.model.config.vocab_size >= 256",
       "the bytes tokenizer needs a vocab_size of at least 256", ".model.config.vocab_size"},
      {"self.tokenizer.type != 'hf' || has(self.tokenizer.path) || has(self.model.path)",
       "hf needs tokenizer.path or model.path", ".tokenizer.type"},
      {"!has(self.model.frozen) || !has(self.model.config) || "
       "self.model.frozen.all(f, !f.startsWith('layer.') || "
       "int(f.contains('-') ? f.split('-')[1] : f.substring(6)) < "
       "self.model.config.num_hidden_layers)",
       "frozen names a layer beyond the last", ".model.frozen"},
      {"!has(self.lora) || (has(self.model.path) && (!has(self.model.init) || "
       "self.model.init == 'pretrained'))",
       "lora needs the weights of model.path", ".lora"},
      {"!has(self.lora) || !has(self.model.frozen)", "lora and model.frozen exclude each other",
       ".model.frozen"},
      {"!has(self.model.frozen) || self.model.frozen.all(f, !f.contains('-') || "
       "int(f.split('-')[0].substring(6)) <= int(f.split('-')[1]))",
       "a range of frozen layers ends before it begins", ".model.frozen"},
  };
}

// Those of tasks that learn from pairs.
std::vector<CelRule> preference_rules() {
  return {
      {"self.task in ['dpo', 'orpo', 'reward'] || !(has(self.data.columns.chosen) || "
       "has(self.data.columns.rejected))",
       "columns of pairs need task dpo, orpo or reward", ".data.columns"},
      {"!(self.task in ['dpo', 'orpo', 'reward']) || self.data.format in ['auto', 'messages']",
       "pairs need format auto or messages", ".data.format"},
      {"!(self.task in ['dpo', 'orpo', 'reward']) || !has(self.data.packing) || !self.data.packing",
       "pairs are not packed", ".data.packing"},
      {"!has(self.preference) || self.task in ['dpo', 'orpo', 'reward']",
       "preference needs task dpo, orpo or reward", ".preference"},
      {"!has(self.preference) || self.task == 'dpo' || self.preference.lossType == 'sigmoid'",
       "lossType needs task dpo", ".preference.lossType"},
      {"!has(self.preference) || self.task != 'reward' || self.preference.beta == 0.1",
       "beta needs task dpo or orpo", ".preference.beta"},
      {"!has(self.preference) || self.task == 'reward' || "
       "self.preference.centerCoefficient == 0.0",
       "centerCoefficient needs task reward", ".preference.centerCoefficient"},
      {"!has(self.lora) || self.task != 'reward'", "lora does not go with task reward", ".lora"},
      {"has(self.distill) == (self.task == 'distill')",
       "task distill needs distill.teacher, and distill needs task distill", ".distill"},
      {"!has(self.preference) || self.preference.labelSmoothing == 0.0 || "
       "(self.task == 'dpo' && self.preference.lossType == 'sigmoid')",
       "labelSmoothing needs task dpo and lossType sigmoid", ".preference.labelSmoothing"},
  };
}

// Those between other sections.
std::vector<CelRule> train_rules() {
  return {
      {"has(self.steps) != has(self.epochs)", "give either steps or epochs", ""},
      {"self.task in ['sft', 'distill'] || !has(self.data.loss)", "loss needs task sft or distill",
       ".data.loss"},
      {"self.task != 'pretrain' || self.data.format != 'messages'",
       "messages needs task sft or distill", ".data.format"},
      {"self.task in ['sft', 'distill'] || !(has(self.data.columns.messages) || "
       "has(self.data.columns.completion) || has(self.data.columns.instruction) || "
       "has(self.data.columns.input) || has(self.data.columns.response))",
       "columns of conversations need task sft or distill", ".data.columns"},
      {"self.task != 'pretrain' || !has(self.data.columns.prompt)",
       "columns of conversations need task sft or distill", ".data.columns"},
      {"self.task == 'pretrain' || self.tokenizer.type == 'hf' || self.data.format == 'tokens'",
       "conversations need type hf", ".tokenizer.type"},
      {"has(self.data.validation) || has(self.data.validationFraction) || "
       "self.evaluation.everySteps == 0",
       "everySteps needs data.validation or data.validationFraction", ".evaluation.everySteps"},
      {"self.evaluation.everySteps > 0 || self.evaluation.earlyStoppingPatience == 0",
       "earlyStoppingPatience needs everySteps", ".evaluation.earlyStoppingPatience"},
      // Not in the section: its default is {}, and an API server evaluates a section's rules on it.
      {"self.parallelism.shardRanks == 0 || self.parallelism.strategy in ['auto', 'zero3']",
       "shardRanks needs strategy zero3", ".parallelism.shardRanks"},
      {"self.parallelism.shardRanks != 1",
       "shardRanks must be 0 or at least 2: for whole copies choose ddp",
       ".parallelism.shardRanks"},
      {"self.parallelism.reduceDtype == 'fp32' || self.parallelism.reduction == 'fast'",
       "reduceDtype bf16 needs reduction fast: rounded gradients have other bits on every rank "
       "count",
       ".parallelism.reduceDtype"},
      {"!has(self.steps) || !has(self.schedule.warmupSteps) || "
       "self.schedule.warmupSteps <= self.steps",
       "warmupSteps must be at most steps", ".schedule.warmupSteps"},
      {"self.schedule.warmupMinLr <= self.optimizer.lr", "warmupMinLr must be at most optimizer.lr",
       ".schedule.warmupMinLr"},
      {"!has(self.steps) || !has(self.logging.profile) || "
       "self.logging.profile.fromStep <= self.steps",
       "logging.profile.fromStep must be at most steps", ".logging.profile.fromStep"},
      {"(self.offload.optimizer != 'nvme' && self.offload.activations != 'nvme') || "
       "has(self.offload.nvmePath)",
       "nvme needs nvmePath", ".offload.nvmePath"},
      {"!has(self.lossScale) || self.precision == 'fp16'", "lossScale needs precision fp16",
       ".lossScale"},
      // The left side rounds as std::llround() does in warmup_steps_of().
      {"self.schedule.name != 'wsd' || !has(self.schedule.decaySteps) || !has(self.steps) || "
       "(has(self.schedule.warmupSteps) ? double(self.schedule.warmupSteps) : "
       "(has(self.schedule.warmupRatio) ? self.schedule.warmupRatio : 0.03) * double(self.steps)) "
       "+ double(self.schedule.decaySteps) < double(self.steps) + 0.5",
       "warm-up and decaySteps must fit into steps", ".schedule.decaySteps"},
  };
}

Field train() {
  Field field{.name = "train", .type = FieldType::kObject, .doc = "The training configuration."};
  Field epochs = positive(number("epochs", 0, 1e6, 0,
                                 "Passes over the data, in place of steps; the steps follow from "
                                 "the data when training starts."));
  epochs.default_value = nullptr;
  field.children = {
      choice(
          "task", {"pretrain", "sft", "dpo", "orpo", "reward", "distill"}, {},
          "pretrain: learn every token. sft: learn the responses of conversations. dpo, orpo: "
          "prefer the chosen of two answers to the rejected. reward: tell by one number which is "
          "the chosen. distill: sft, and what a larger model says of every token."),
      model_section(),
      tokenizer_section(),
      data_section(),
      lora_section(),
      preference_section(),
      distill_section(),
      batch_section(),
      integer("steps", 1, kMaxCount, "Optimizer steps to make; or give epochs."),
      epochs,
      precision_choice(),
      loss_scale_section(),
      non_finite_section(),
      parallelism_section(),
      choice("activationCheckpointing", {"none", "block", "selective"}, {},
             "What a layer keeps for backward. block: its input; forward runs again. selective: "
             "also the attention's output; the rest runs again. Same bits, less memory."),
      offload_section(),
      optimizer_section(),
      schedule_section(),
      checkpoint_section(),
      evaluation_section(),
      object("export", "The model that is left at the end.",
             {choice("format", {"huggingface"}, {}, "Layout of the model folder."),
              boolean("atEnd", true, "Whether to export when training ends."),
              choice("dtype", {"fp32", "bf16", "fp16"}, {},
                     "Type of the exported weights, rounded from the fp32 masters.")}),
      logging_section(),
      communication_section(),
      defaulted(integer("seed", 0, kMaxSeed, "Seed of weights and data order."), 42),
  };
  field.rules = model_rules();
  for (CelRule& rule : train_rules()) field.rules.push_back(std::move(rule));
  for (CelRule& rule : preference_rules()) field.rules.push_back(std::move(rule));
  return field;
}

}  // namespace

const Field& train_fields() {
  static const Field field = train();
  return field;
}

}  // namespace lockstep::common

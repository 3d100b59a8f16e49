#include "runtime/common/train_fields.h"

namespace lockstep::common {
namespace {

using nlohmann::json;
using Fields = std::vector<Field>;

constexpr double kMaxSeed = 9007199254740991;  // 2^53 - 1: the largest integer that JSON keeps
constexpr double kMaxCount = 1e9;              // steps, warm-up: no run is longer
constexpr double kMaxBatch = 1 << 20;
constexpr double kMaxSeconds = 86400;

Field integer(std::string name, double minimum, double maximum, std::string doc) {
  return {.name = std::move(name),
          .type = FieldType::kInteger,
          .doc = std::move(doc),
          .minimum = minimum,
          .maximum = maximum};
}

Field required(Field field) {
  field.required = true;
  return field;
}

Field defaulted(Field field, json value) {
  field.default_value = std::move(value);
  return field;
}

Field boolean(std::string name, bool value, std::string doc) {
  return {.name = std::move(name),
          .type = FieldType::kBoolean,
          .doc = std::move(doc),
          .default_value = value};
}

// A number in [minimum, maximum].
Field number(std::string name, double minimum, double maximum, double value, std::string doc) {
  return {.name = std::move(name),
          .type = FieldType::kNumber,
          .doc = std::move(doc),
          .default_value = value,
          .minimum = minimum,
          .maximum = maximum};
}

Field positive(Field field) {
  field.exclusive_minimum = true;
  return field;
}

// One of `choices`, the first by default.
Field choice(std::string name, std::vector<json> choices, std::vector<std::string> planned,
             std::string doc) {
  Field field{.name = std::move(name), .doc = std::move(doc)};
  field.default_value = choices.front();
  field.choices = std::move(choices);
  field.planned = std::move(planned);
  return field;
}

Field object(std::string name, std::string doc, Fields children) {
  return {.name = std::move(name),
          .type = FieldType::kObject,
          .doc = std::move(doc),
          .default_value = json::object(),
          .children = std::move(children)};
}

Field required_object(std::string name, std::string doc, Fields children) {
  return {.name = std::move(name),
          .type = FieldType::kObject,
          .doc = std::move(doc),
          .required = true,
          .children = std::move(children)};
}

// A flag of config.json of which only `false` is honoured.
Field only_false(std::string name, std::string doc) {
  Field field = boolean(std::move(name), false, std::move(doc));
  field.choices = {false};
  field.planned = {"true"};
  return field;
}

Fields model_sizes() {
  return {
      required(integer("vocab_size", 1, 1 << 20, "Number of token ids.")),
      required(integer("hidden_size", 1, 1 << 16, "Width of the residual stream.")),
      required(integer("intermediate_size", 1, 1 << 18, "Width of the feed-forward layers.")),
      required(integer("num_hidden_layers", 1, 1024, "Number of decoder layers.")),
      required(integer("num_attention_heads", 1, 1024, "Number of query heads.")),
      integer("num_key_value_heads", 1, 1024,
              "Number of key and value heads; num_attention_heads unless given."),
      integer("head_dim", 2, 256,
              "Width of a head, even; hidden_size / num_attention_heads unless given."),
      defaulted(integer("max_position_embeddings", 1, 1 << 24, "Longest sequence."), 2048),
  };
}

Field model_config() {
  Fields children = {
      choice("model_type", {"llama"}, {"gpt2", "mistral", "qwen2", "qwen3", "gemma", "phi3"},
             "Family of models."),
      {.name = "architectures",
       .type = FieldType::kList,
       .doc = "Accepted so that a config.json can be pasted.",
       .min_items = 1,
       .max_items = 1,
       .element = {choice("", {"LlamaForCausalLM"}, {}, "")}},
  };
  for (Field& field : model_sizes()) children.push_back(std::move(field));
  const Fields rest = {
      positive(number("rms_norm_eps", 0, 1, 1e-6, "Added to the mean square in RMSNorm.")),
      positive(number("rope_theta", 0, 1e12, 10000, "Base of the rotary embedding.")),
      number("initializer_range", 0, 1, 0.02, "Standard deviation of the initial weights."),
      only_false("tie_word_embeddings", "Whether embedding and head share their weights."),
      choice("hidden_act", {"silu"}, {"gelu", "relu", "gelu_pytorch_tanh"},
             "Activation of the feed-forward layers."),
      only_false("attention_bias", "Whether attention projections have a bias."),
      only_false("mlp_bias", "Whether feed-forward projections have a bias."),
  };
  children.insert(children.end(), rest.begin(), rest.end());
  Field config = required_object(
      "config", "Fields of a Hugging Face config.json of a Llama-style decoder.", children);
  config.planned = {
      "torch_dtype",       "dtype",          "rope_scaling",   "rope_parameters",
      "attention_dropout", "bos_token_id",   "eos_token_id",   "pad_token_id",
      "use_cache",         "pretraining_tp", "sliding_window", "transformers_version"};
  config.rules = {
      {"!has(self.num_key_value_heads) || self.num_attention_heads % self.num_key_value_heads == 0",
       "num_attention_heads must be divisible by num_key_value_heads", ".num_key_value_heads"},
      {"has(self.head_dim) || self.hidden_size % self.num_attention_heads == 0",
       "hidden_size must be divisible by num_attention_heads, or head_dim given", ".hidden_size"},
      {"(has(self.head_dim) ? self.head_dim : self.hidden_size / self.num_attention_heads) % 2 == "
       "0",
       "the width of a head must be even", ".num_attention_heads"},
      {"has(self.head_dim) || self.hidden_size / self.num_attention_heads <= 256",
       "the width of a head must be at most 256", ".num_attention_heads"},
  };
  return config;
}

Field model() {
  Field field = required_object("model", "The model to train.",
                                {model_config(), choice("init", {"random"}, {"pretrained"},
                                                        "Where the first weights come from.")});
  field.planned = {"path"};
  return field;
}

Field tokenizer() {
  Field field = object("tokenizer", "How text becomes tokens.",
                       {choice("type", {"bytes"}, {"hf"}, "bytes: a token is a byte.")});
  field.planned = {"path"};
  return field;
}

Field data() {
  Field field = required_object(
      "data", "What to train on.",
      {
          {.name = "train",
           .doc = "Text files: a path, a folder or a glob with braces, e.g. /data/{a,b}/*.txt.",
           .required = true,
           .min_length = 1,
           .max_length = 4096},
          choice("format", {"auto", "text"}, {"jsonl", "messages", "tokens"},
                 "Format of the files."),
          required(integer("sequenceLength", 1, 1 << 20, "Tokens per sample.")),
          boolean("shuffle", true, "Whether samples come in a random order, given by seed."),
      });
  field.planned = {"validation", "columns", "packing", "loaderThreads", "prefetchBatches"};
  return field;
}

Field batch() {
  Field field = required_object(
      "batch", "Sequences per step. Any two of the three fields decide the third.",
      {
          integer("globalBatchSize", 1, kMaxBatch, "Sequences per optimizer step, over all ranks."),
          integer("microBatchSize", 1, kMaxBatch,
                  "Sequences per forward and backward; 1 if only globalBatchSize is given."),
          integer("accumulationSteps", 1, kMaxBatch,
                  "Micro-batches per rank and step. While it is given, ranks cannot change."),
      });
  field.rules = {
      {"has(self.globalBatchSize) || (has(self.microBatchSize) && "
       "has(self.accumulationSteps))",
       "give globalBatchSize, or microBatchSize and accumulationSteps", ""}};
  return field;
}

Field parallelism() {
  Field field =
      object("parallelism", "How the ranks share the work.",
             {choice("strategy", {"auto", "ddp", "zero3"}, {"zero1", "zero2", "fsdp"},
                     "ddp: every rank keeps the model. zero3: every rank keeps a slice of it."),
              choice("reduction", {"reproducible"}, {"fast"},
                     "reproducible: the same bits on any number of ranks.")});
  field.planned = {"shardRanks", "reduceDtype", "bucketBytes", "prefetchUnits"};
  return field;
}

Field optimizer() {
  Field beta = number("", 0, 1, 0, "");
  beta.default_value = nullptr;
  beta.exclusive_maximum = true;
  return object(
      "optimizer", "AdamW and its settings.",
      {
          choice("name", {"adamw"}, {"adam", "sgd", "lion", "adafactor", "muon"}, "The optimizer."),
          number("lr", 0, 1000, 3e-4, "Learning rate after warm-up."),
          {.name = "betas",
           .type = FieldType::kList,
           .doc = "Decay rates of the two moments.",
           .default_value = {0.9, 0.95},
           .min_items = 2,
           .max_items = 2,
           .element = {beta}},
          positive(number("eps", 0, 1, 1e-8, "Added to the denominator.")),
          number("weightDecay", 0, 1000, 0.1, "Decoupled weight decay."),
          choice("weightDecayOn", {"matrices", "all"}, {}, "Which weights decay."),
          number("gradientClip", 0, 1e12, 1.0, "Largest global norm of the gradient; 0 = off."),
      });
}

Field schedule() {
  Field ratio = number("warmupRatio", 0, 1, 0,
                       "Share of the steps that warm up; 0.03 unless given (constant: 0).");
  ratio.default_value = nullptr;
  Field field =
      object("schedule", "Learning rate over the steps.",
             {choice("name", {"cosine", "linear", "constant"}, {}, "Shape after warm-up."), ratio,
              integer("warmupSteps", 0, kMaxCount, "Steps that warm up, in place of warmupRatio."),
              number("minLrRatio", 0, 1, 0.1, "Last learning rate as a share of lr.")});
  field.planned = {"warmupType", "warmupMinLr", "decaySteps"};
  field.rules = {{"!(has(self.warmupRatio) && has(self.warmupSteps))",
                  "give warmupRatio or warmupSteps, not both", ".warmupSteps"}};
  return field;
}

Field checkpoint() {
  Field field = object(
      "checkpoint", "Saving and resuming.",
      {
          defaulted(
              integer("everySteps", 0, kMaxCount,
                      "Steps between checkpoints; 0 = only when asked to stop and at the end."),
              500),
          defaulted(integer("keep", 1, 1000, "Checkpoints to keep."), 2),
          choice("resume", {"auto", "never"}, {}, "auto: go on from the newest checkpoint."),
          defaulted(
              integer("gracePeriodSeconds", 1, kMaxSeconds, "Time to save when asked to stop."),
              120),
      });
  field.planned = {"async"};
  return field;
}

Field communication() {
  Field field = object(
      "communication", "How ranks talk to each other.",
      {choice("backend", {"auto", "shared-memory", "gloo"}, {"nccl"},
              "auto: shared memory where all ranks can open the same segment, else gloo."),
       defaulted(integer("timeoutSeconds", 1, kMaxSeconds, "Longest wait for a peer."), 600)});
  field.planned = {"env"};
  return field;
}

Field logging() {
  Field field = object(
      "logging", "What is written down while training.",
      {defaulted(integer("everySteps", 1, kMaxCount, "Steps between lines of metrics.jsonl."),
                 10)});
  field.planned = {"tensorboard"};
  return field;
}

Field train() {
  Field field{.name = "train", .type = FieldType::kObject, .doc = "The training configuration."};
  field.children = {
      choice("task", {"pretrain"}, {"sft", "dpo", "orpo", "reward", "distill"}, "What to do."),
      model(),
      tokenizer(),
      data(),
      batch(),
      required(integer("steps", 1, kMaxCount, "Optimizer steps to make.")),
      choice("precision", {"fp32"}, {"bf16", "fp16"}, "Type of the computation."),
      parallelism(),
      optimizer(),
      schedule(),
      checkpoint(),
      object("export", "The model that is left at the end.",
             {choice("format", {"huggingface"}, {}, "Layout of the model folder."),
              boolean("atEnd", true, "Whether to export when training ends."),
              choice("dtype", {"fp32"}, {"bf16", "fp16"}, "Type of the exported weights.")}),
      logging(),
      communication(),
      defaulted(integer("seed", 0, kMaxSeed, "Seed of weights and data order."), 42),
  };
  field.planned = {"epochs",  "lossScale", "activationCheckpointing",
                   "offload", "lora",      "evaluation"};
  field.rules = {
      {"self.data.sequenceLength <= self.model.config.max_position_embeddings",
       "sequenceLength must be at most model.config.max_position_embeddings",
       ".data.sequenceLength"},
      {"self.tokenizer.type != 'bytes' || self.model.config.vocab_size >= 256",
       "the bytes tokenizer needs a vocab_size of at least 256", ".model.config.vocab_size"},
      {"!has(self.schedule.warmupSteps) || self.schedule.warmupSteps <= self.steps",
       "warmupSteps must be at most steps", ".schedule.warmupSteps"},
  };
  return field;
}

}  // namespace

const Field& train_fields() {
  static const Field field = train();
  return field;
}

}  // namespace lockstep::common

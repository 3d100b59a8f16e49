// The training configuration (`spec.train`, or a train.yaml of its own) as typed values.
// One table of fields (train_fields.cc) holds names, types, defaults, bounds and docs; from it come
// this decoding, the CRD's schema and the reference in the docs.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "runtime/common/dtype.h"
#include "runtime/common/hub_inputs.h"
#include "runtime/common/lora.h"
#include "runtime/common/model_config.h"
#include "runtime/common/problem.h"
#include "runtime/common/result.h"

namespace lockstep::common {

// Where the model comes from.
struct ModelSource {
  std::string path;            // a Hugging Face directory; empty: an inline config
  bool is_pretrained = false;  // its weights are the first ones
};

struct TokenizerConfig {
  enum class Type { kBytes, kHuggingFace };
  Type type = Type::kBytes;
  std::string path;  // of kHuggingFace: a directory with a tokenizer.json, or that file
};

enum class Task { kPretrain, kSft, kDpo, kOrpo, kReward, kDistill };

// Whether a task learns from pairs of answers: what is preferred and what is not.
inline bool is_preference(Task task) {
  return task == Task::kDpo || task == Task::kOrpo || task == Task::kReward;
}

// Whether a task learns what is said in conversations.
inline bool is_conversational(Task task) {
  return task == Task::kSft || task == Task::kDistill;
}

// The same of the task's name, a JSON value.
bool learns_from_pairs(const nlohmann::json& task);
bool learns_from_conversations(const nlohmann::json& task);

// The fields of a line that hold a conversation; empty: not named, so the first line tells.
struct ConversationColumns {
  std::string messages;                      // a list of them
  std::string prompt, completion;            // two texts, or two lists of messages
  std::string instruction, input, response;  // what a user asks with, and is answered
  std::string chosen, rejected;              // of a pair: two texts, or two lists of messages
};

struct DataSource {
  std::string path;     // folder or glob (braces allowed)
  double weight = 1;    // of the sum of those of all sources: its share of the samples
  std::string field{};  // that names it, below `train`: "data.train" or "data.sources[1].path"
};

struct DataConfig {
  enum class Format { kAuto, kText, kJsonl, kMessages, kTokens };
  enum class Loss { kAll, kResponse };
  std::vector<DataSource> sources{};  // one of data.train
  std::string validation;             // path, folder or glob; empty = none
  double validation_fraction = 0;  // of each source, held out; 0 = none. Never beside `validation`
  Format format = Format::kAuto;
  std::string text_column = "text";
  ConversationColumns conversation_columns;
  Loss loss = Loss::kAll;  // of conversations: what is learned
  int64_t sequence_length = 0;
  bool packing = true;
  bool shuffle = true;
  int64_t loader_threads = 2;    // 0 = no thread
  int64_t prefetch_batches = 2;  // micro-batches

  bool has_validation() const { return !validation.empty() || validation_fraction > 0; }
};

// Of tasks that learn from pairs.
struct PreferenceConfig {
  enum class Loss { kSigmoid, kHinge, kIpo };
  double beta = 0.1;              // of dpo and orpo
  Loss loss = Loss::kSigmoid;     // of dpo
  double label_smoothing = 0;     // of kSigmoid: the share of pairs that may be the wrong way round
  double center_coefficient = 0;  // of reward: of the square of what both answers' rewards sum to
};

// Of task distill.
struct DistillConfig {
  std::string teacher;     // a Hugging Face directory
  double temperature = 2;  // both models' logits are divided by it
  double alpha = 0.5;      // what the teacher counts; the labels count the rest
  ModelConfig model;       // the teacher's, once read_teacher() has read it
};

struct EvaluationConfig {
  int64_t every_steps = 0;              // 0 = after the last step only
  int64_t early_stopping_patience = 0;  // evaluations; 0 = off
};

struct BatchConfig {
  int64_t global_batch_size = 0;  // samples per optimizer step: sequences, or pairs of them
  int64_t micro_batch_size = 0;   // samples per forward and backward
  int64_t num_micro_batches() const { return global_batch_size / micro_batch_size; }
};

enum class Strategy { kAuto, kDdp, kZero1, kZero2, kZero3 };

// What a layer's backward finds of its forward: all of it; its input; or also what is dear to
// compute again.
enum class ActivationCheckpointing { kNone, kBlock, kSelective };

enum class Reduction { kReproducible, kFast };

struct ParallelismConfig {
  Strategy strategy = Strategy::kAuto;
  int64_t shard_ranks = 0;  // of zero3; 0 = all ranks
  Reduction reduction = Reduction::kReproducible;
  DType reduce_dtype = DType::kFp32;  // bf16 with kFast only
  int64_t bucket_bytes = int64_t{25} << 20;
  int64_t prefetch_units = 1;
};

enum class OffloadTarget { kNone, kCpu, kNvme };

// Where state goes that a rank has no need of at the moment.
struct OffloadConfig {
  OffloadTarget optimizer = OffloadTarget::kNone;
  OffloadTarget parameters = OffloadTarget::kNone;  // not kNvme yet
  OffloadTarget activations = OffloadTarget::kNone;
  std::string nvme_path;  // a folder; given if anything is kNvme
};

// Of precision fp16.
struct LossScaleConfig {
  double fixed = 0;  // `static`; 0 = dynamic
  int64_t initial_power = 16;
  int64_t window = 1000;
  int64_t hysteresis = 2;
  double min = 1;
};

struct NonFiniteConfig {
  int64_t max_consecutive_skips = 3;
};

struct OptimizerConfig {
  enum class Kind { kAdamW, kAdam, kSgd };
  Kind kind = Kind::kAdamW;
  double lr = 3e-4;
  double beta1 = 0.9;
  double beta2 = 0.95;
  double eps = 1e-8;
  double momentum = 0;  // of sgd
  bool nesterov = false;
  double weight_decay = 0.1;        // decoupled in adamw, part of the gradient in the others
  bool decay_matrices_only = true;  // weightDecayOn: matrices | all
  double gradient_clip = 1.0;       // global norm; 0 = off
};

// fp32 values per weight that the optimizer keeps from step to step: 2 for adamw and adam, 1 for
// sgd with momentum, 0 without.
int num_moments(const OptimizerConfig& optimizer);

struct ScheduleConfig {
  enum class Kind { kCosine, kLinear, kConstant, kWarmupStableDecay };
  enum class Warmup { kLinear, kLog };
  Kind kind = Kind::kCosine;
  Warmup warmup = Warmup::kLinear;
  int64_t warmup_steps = 0;  // resolved from warmupSteps or warmupRatio * steps
  double warmup_min_lr = 0;  // where the warm-up starts
  int64_t decay_steps = 0;   // of the fall; 0 = none
  double min_lr_ratio = 0.1;
};

struct CheckpointConfig {
  int64_t every_steps = 500;  // 0 = only at SIGTERM and at the end
  int64_t keep = 2;
  bool resume = true;       // go on from the output's own checkpoints: resume is not never
  std::string resume_from;  // else from this folder of a checkpoint; empty: from initial weights
  bool async = true;        // written behind training
  int64_t grace_period_seconds = 120;
};

struct CommunicationConfig {
  enum class Backend { kAuto, kSharedMemory, kGloo };
  Backend backend = Backend::kAuto;
  int64_t timeout_seconds = 600;
};

// Steps from_step to from_step + steps - 1.
struct ProfileConfig {
  int64_t from_step = 0;
  int64_t steps = 0;  // 0 = none
};

struct LoggingConfig {
  int64_t every_steps = 10;
  bool tensorboard = false;
  ProfileConfig profile;
  double peak_flops_per_rank = 0;  // FLOP/s; 0 = unknown
};

struct TrainConfig {
  Task task = Task::kPretrain;
  PreferenceConfig preference;
  DistillConfig distill;
  ModelConfig model;
  ModelSource model_source;
  // [unit of the model]: keeps its first weights; empty = none does. With adapters all do.
  std::vector<bool> frozen;
  LoraConfig lora;
  TokenizerConfig tokenizer;
  DataConfig data;
  BatchConfig batch;
  int64_t steps = 0;  // 0 = given by epochs: with_steps() tells them once the data is open
  double epochs = 0;  // 0 = given by steps
  DType precision = DType::kFp32;
  LossScaleConfig loss_scale;
  NonFiniteConfig non_finite;
  ParallelismConfig parallelism;
  ActivationCheckpointing activation_checkpointing = ActivationCheckpointing::kNone;
  OffloadConfig offload;
  OptimizerConfig optimizer;
  ScheduleConfig schedule;
  CheckpointConfig checkpoint;
  EvaluationConfig evaluation;
  bool export_at_end = true;
  DType export_dtype = DType::kFp32;
  LoggingConfig logging;
  CommunicationConfig communication;
  int64_t seed = 42;
};

// Sequences of a sample.
inline int64_t rows_per_sample(const TrainConfig& train) {
  return is_preference(train.task) ? 2 : 1;
}

// Sequences per forward and backward.
inline int64_t micro_batch_rows(const TrainConfig& train) {
  return train.batch.micro_batch_size * rows_per_sample(train);
}

inline bool is_frozen(const TrainConfig& train, int64_t unit) {
  const auto index = static_cast<std::size_t>(unit);
  return index < train.frozen.size() && train.frozen[index];
}

// Where backward ends: blocks before it are frozen and have no adapters.
inline int64_t first_trained_block(const TrainConfig& train) {
  if (train.lora.is_on()) return 1;  // every layer has some
  int64_t block = 0;
  while (is_frozen(train, block)) ++block;
  return block;
}

// A `spec.train` in which nothing is left to decide.
struct ResolvedTrain {
  nlohmann::json train;
  std::vector<std::string> notes;  // what was decided, for people: "warmupSteps = 3 (...)"
};

// Decides what follows from other fields: the third of globalBatchSize, microBatchSize and
// accumulationSteps, num_key_value_heads, head_dim, warmupSteps, decaySteps of wsd, weightDecay.
// The result names globalBatchSize and microBatchSize only, so it does not depend on `ranks` unless
// accumulationSteps was given. What cannot be decided is left as found, for check_train().
// Idempotent; never throws.
//   train: after check_and_default(train_fields(), ...).
ResolvedTrain resolve_train(const nlohmann::json& train, int64_t ranks);

// Steps that warm up under `schedule`: warmupSteps, or warmupRatio of `steps`, whose default
// depends on the name. Nothing if a field is of a wrong type or out of bounds.
std::optional<int64_t> warmup_steps_of(const nlohmann::json& schedule, int64_t steps);

// Relations between fields of `train` (before or after resolve_train()) and with the rank count.
// Skips relations whose fields are missing or of a wrong type, and those of the batch if `ranks` is
// no rank count. Paths start at `prefix`.
Problems check_train_relations(const nlohmann::json& train, int64_t ranks,
                               const std::string& prefix);

// All that is wrong with `train`: unknown fields, types, bounds and relations. Paths start at
// `prefix` (e.g. "spec.train"). Never throws, whatever `train` is.
Problems check_train(const nlohmann::json& train, int64_t ranks, const std::string& prefix);

// What decode_train() takes: `train` resolved, with the model of its model.path, which is read.
//   train: passed check_train(); after check_and_default(train_fields(), ...).
// Errors: those of with_model_of_path(); kInvalidArgument where that model and other fields
// exclude each other.
Result<nlohmann::json> complete_train(const nlohmann::json& train, int64_t ranks);

// Decodes a `spec.train` that passed check_train(). Missing defaults are filled in; batch must name
// globalBatchSize (resolve_train() sees to that), and model have a config (with_model_of_path()):
// without one, as of a model that is still on the hub, what follows from it is left out.
TrainConfig decode_train(const nlohmann::json& train);

// Whether training goes on while a checkpoint is written, from a copy in memory: saves do not block
// and one may come before the end. The save of a run's end or stop needs no copy.
bool saves_behind_training(const TrainConfig& train);

// The configuration with `steps` in place of its epochs, and all that follows from them decided.
//   train_json: as JobFile::train_json. kInvalidArgument if a relation does not hold with `steps`
//   (e.g. more warm-up steps than that).
Result<TrainConfig> with_steps(const std::string& train_json, int64_t steps);

// The rank counts, ascending, that divide the micro-batches of a step: all work, with the same
// bits.
std::vector<int64_t> rank_counts_for(int64_t num_micro_batches);

// The job file that LOCKSTEP_JOB names: {"name", "ranks", "train"}.
struct JobFile {
  std::string name;
  int64_t ranks = 1;
  TrainConfig train;
  // Normalised text of `train`, for manifests and comparisons: references to the hub as written.
  std::string train_json;
  FieldTexts places{};  // paths of this machine that stand for those
  // `train_json` with `places`.
  std::string train_json_here() const;
};
// A model.path is read: train_json has its model.config beside it. One that is on the hub is not:
// with_places() follows.
// Errors are kInvalidArgument with field path and line (one problem a line), else what
// read_text_file() says of it or of the config.json at model.path.
Result<JobFile> load_job_file(const std::string& path);

// `job` with a path of this machine for each of its references, and all that its model decides.
// Errors as complete_train().
Result<JobFile> with_places(JobFile job, FieldTexts places);

}  // namespace lockstep::common

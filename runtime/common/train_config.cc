#include "runtime/common/train_config.h"

#include <utility>

#include "runtime/common/choose_strategy.h"
#include "runtime/common/document.h"
#include "runtime/common/frozen_units.h"
#include "runtime/common/model_folder.h"
#include "runtime/common/model_json.h"
#include "runtime/common/quantity.h"
#include "runtime/common/suggest.h"
#include "runtime/common/teacher_model.h"
#include "runtime/common/text_file.h"
#include "runtime/common/train_fields.h"
#include "runtime/common/train_relations.h"

namespace lockstep::common {
namespace {

using nlohmann::json;

std::vector<bool> decode_frozen(const json& train, int64_t num_layers) {
  if (train.contains("lora")) return std::vector<bool>(static_cast<size_t>(num_layers + 2), true);
  const json& model = train.at("model");
  const auto found = model.find("frozen");
  if (found == model.end()) return {};
  return frozen_units(found->get<std::vector<std::string>>(), num_layers).value();
}

LoraConfig decode_lora(const json& train) {
  const auto found = train.find("lora");
  if (found == train.end()) return {};
  return {.rank = found->at("rank").get<int64_t>(),
          .alpha = found->at("alpha").get<double>(),
          .dropout = found->at("dropout").get<double>(),
          .use_rslora = found->at("useRslora").get<bool>(),
          .targets = found->at("targets").get<std::vector<std::string>>(),
          .merge = found->at("merge").get<bool>(),
          .path = found->value("path", "")};
}

OptimizerConfig decode_optimizer(const json& optimizer) {
  using Kind = OptimizerConfig::Kind;
  const json& name = optimizer.at("name");
  return {.kind = name == "sgd"    ? Kind::kSgd
                  : name == "adam" ? Kind::kAdam
                                   : Kind::kAdamW,
          .lr = optimizer.at("lr").get<double>(),
          .beta1 = optimizer.at("betas").at(0).get<double>(),
          .beta2 = optimizer.at("betas").at(1).get<double>(),
          .eps = optimizer.at("eps").get<double>(),
          .momentum = optimizer.value("momentum", 0.0),
          .nesterov = optimizer.value("nesterov", false),
          .weight_decay = optimizer.at("weightDecay").get<double>(),
          .decay_matrices_only = optimizer.at("weightDecayOn") == "matrices",
          .gradient_clip = optimizer.at("gradientClip").get<double>()};
}

Task decode_task(const json& name) {
  if (name == "dpo") return Task::kDpo;
  if (name == "orpo") return Task::kOrpo;
  if (name == "reward") return Task::kReward;
  if (name == "distill") return Task::kDistill;
  return name == "sft" ? Task::kSft : Task::kPretrain;
}

PreferenceConfig decode_preference(const json& train) {
  using Loss = PreferenceConfig::Loss;
  const auto found = train.find("preference");
  if (found == train.end()) return {};
  const json& loss = found->at("lossType");
  return {.beta = found->at("beta").get<double>(),
          .loss = loss == "hinge" ? Loss::kHinge
                  : loss == "ipo" ? Loss::kIpo
                                  : Loss::kSigmoid,
          .label_smoothing = found->at("labelSmoothing").get<double>(),
          .center_coefficient = found->at("centerCoefficient").get<double>()};
}

DistillConfig decode_distill(const json& train) {
  const auto found = train.find("distill");
  if (found == train.end()) return {};
  return {.teacher = found->at("teacher").get<std::string>(),
          .temperature = found->at("temperature").get<double>(),
          .alpha = found->at("alpha").get<double>()};
}

// The model that the task trains.
ModelConfig decode_model(const json& config, Task task) {
  ModelConfig model = decode_model_json(config).value();
  model.has_score = task == Task::kReward;
  if (model.has_score) model.tie_word_embeddings = false;  // no head is left to tie
  return model;
}

CheckpointConfig decode_checkpoint(const json& checkpoint) {
  const auto resume = checkpoint.at("resume").get<std::string>();
  return {.every_steps = checkpoint.at("everySteps").get<int64_t>(),
          .keep = checkpoint.at("keep").get<int64_t>(),
          .resume = resume != "never",
          .resume_from = resume == "auto" || resume == "never" ? "" : resume,
          .async = checkpoint.at("async").get<bool>(),
          .grace_period_seconds = checkpoint.at("gracePeriodSeconds").get<int64_t>()};
}

ScheduleConfig::Kind decode_schedule_kind(const json& name) {
  using Kind = ScheduleConfig::Kind;
  if (name == "cosine") return Kind::kCosine;
  if (name == "linear") return Kind::kLinear;
  return name == "wsd" ? Kind::kWarmupStableDecay : Kind::kConstant;
}

ScheduleConfig decode_schedule(const json& schedule, int64_t steps) {
  const ScheduleConfig::Kind kind = decode_schedule_kind(schedule.at("name"));
  // Absent while epochs stand for the steps.
  const auto warmup_steps = schedule.value("warmupSteps", int64_t{0});
  const bool falls_after_warmup =
      kind == ScheduleConfig::Kind::kCosine || kind == ScheduleConfig::Kind::kLinear;
  const int64_t decay_steps = falls_after_warmup ? steps - warmup_steps : 0;
  return {.kind = kind,
          .warmup = schedule.at("warmupType") == "log" ? ScheduleConfig::Warmup::kLog
                                                       : ScheduleConfig::Warmup::kLinear,
          .warmup_steps = warmup_steps,
          .warmup_min_lr = schedule.at("warmupMinLr").get<double>(),
          .decay_steps = schedule.value("decaySteps", decay_steps),
          .min_lr_ratio = schedule.at("minLrRatio").get<double>()};
}

TokenizerConfig decode_tokenizer(const json& train) {
  const json& tokenizer = train.at("tokenizer");
  if (tokenizer.at("type") == "bytes") return {};
  return {.type = TokenizerConfig::Type::kHuggingFace,
          .path = tokenizer.value("path", train.at("model").value("path", ""))};
}

ConversationColumns decode_conversation_columns(const json& columns) {
  return {.messages = columns.value("messages", ""),
          .prompt = columns.value("prompt", ""),
          .completion = columns.value("completion", ""),
          .instruction = columns.value("instruction", ""),
          .input = columns.value("input", ""),
          .response = columns.value("response", ""),
          .chosen = columns.value("chosen", ""),
          .rejected = columns.value("rejected", "")};
}

std::vector<DataSource> decode_sources(const json& data) {
  if (!data.contains("sources")) {
    return {{.path = data.at("train").get<std::string>(), .field = "data.train"}};
  }
  std::vector<DataSource> sources;
  for (const json& source : data.at("sources")) {
    sources.push_back({.path = source.at("path").get<std::string>(),
                       .weight = source.at("weight").get<double>(),
                       .field = item_path("data.sources", sources.size()) + ".path"});
  }
  return sources;
}

DataConfig decode_data(const json& data) {
  using Format = DataConfig::Format;
  const json& format = data.at("format");
  return {.sources = decode_sources(data),
          .validation = data.value("validation", ""),
          .validation_fraction = data.value("validationFraction", 0.0),
          .format = format == "text"       ? Format::kText
                    : format == "jsonl"    ? Format::kJsonl
                    : format == "messages" ? Format::kMessages
                    : format == "tokens"   ? Format::kTokens
                                           : Format::kAuto,
          .text_column = data.at("columns").at("text").get<std::string>(),
          .conversation_columns = decode_conversation_columns(data.at("columns")),
          .loss = data.value("loss", "all") == "response" ? DataConfig::Loss::kResponse
                                                          : DataConfig::Loss::kAll,
          .sequence_length = data.at("sequenceLength").get<int64_t>(),
          .packing = data.at("packing").get<bool>(),
          .shuffle = data.at("shuffle").get<bool>(),
          .loader_threads = data.at("loaderThreads").get<int64_t>(),
          .prefetch_batches = data.at("prefetchBatches").get<int64_t>()};
}

ActivationCheckpointing decode_activation_checkpointing(const json& name) {
  return name == "block"       ? ActivationCheckpointing::kBlock
         : name == "selective" ? ActivationCheckpointing::kSelective
                               : ActivationCheckpointing::kNone;
}

ParallelismConfig decode_parallelism(const json& parallelism) {
  const json& bucket = parallelism.at("bucketBytes");
  return {.strategy = *strategy_named(parallelism.at("strategy").get<std::string>()),
          .shard_ranks = parallelism.at("shardRanks").get<int64_t>(),
          .reduction =
              parallelism.at("reduction") == "fast" ? Reduction::kFast : Reduction::kReproducible,
          .reduce_dtype = parallelism.at("reduceDtype") == "bf16" ? DType::kBf16 : DType::kFp32,
          .bucket_bytes =
              *quantity_bytes(bucket.is_string() ? bucket.get<std::string>() : bucket.dump()),
          .prefetch_units = parallelism.at("prefetchUnits").get<int64_t>()};
}

OffloadTarget decode_offload_target(const json& name) {
  if (name == "cpu") return OffloadTarget::kCpu;
  return name == "nvme" ? OffloadTarget::kNvme : OffloadTarget::kNone;
}

OffloadConfig decode_offload(const json& offload) {
  return {.optimizer = decode_offload_target(offload.at("optimizer")),
          .parameters = decode_offload_target(offload.at("parameters")),
          .activations = decode_offload_target(offload.at("activations")),
          .nvme_path = offload.value("nvmePath", "")};
}

DType decode_dtype(const json& name) {
  return name == "bf16" ? DType::kBf16 : name == "fp16" ? DType::kFp16 : DType::kFp32;
}

LossScaleConfig decode_loss_scale(const json& train) {
  const auto found = train.find("lossScale");
  if (found == train.end()) return {};
  return {.fixed = found->at("static").get<double>(),
          .initial_power = found->at("initialPower").get<int64_t>(),
          .window = found->at("window").get<int64_t>(),
          .hysteresis = found->at("hysteresis").get<int64_t>(),
          .min = found->at("min").get<double>()};
}

CommunicationConfig decode_communication(const json& communication) {
  using Backend = CommunicationConfig::Backend;
  const json& backend = communication.at("backend");
  return {.backend = backend == "gloo"            ? Backend::kGloo
                     : backend == "shared-memory" ? Backend::kSharedMemory
                                                  : Backend::kAuto,
          .timeout_seconds = communication.at("timeoutSeconds").get<int64_t>()};
}

LoggingConfig decode_logging(const json& logging) {
  ProfileConfig profile;
  if (const auto found = logging.find("profile"); found != logging.end()) {
    profile = {.from_step = found->at("fromStep").get<int64_t>(),
               .steps = found->at("steps").get<int64_t>()};
  }
  return {.every_steps = logging.at("everySteps").get<int64_t>(),
          .tensorboard = logging.at("tensorboard").get<bool>(),
          .profile = profile,
          .peak_flops_per_rank = logging.value("peakFlopsPerRank", 0.0)};
}

// Fields of the job file. `train` has a table of its own.
const Field& job_file_fields() {
  static const Field field = [] {
    Field train = train_fields();
    train.required = true;
    Field job{.type = FieldType::kObject};
    job.children = {{.name = "name", .doc = "Name of the job.", .required = true},
                    {.name = "ranks",
                     .type = FieldType::kInteger,
                     .doc = "World size.",
                     .required = true,
                     .minimum = 1},
                    train};
    return job;
  }();
  return field;
}

Error to_error(const Problems& problems, const std::string& file) {
  std::vector<std::string> lines;
  for (const Problem& problem : problems) lines.push_back(to_string(problem, file));
  return {.code = ErrorCode::kInvalidArgument, .message = join(lines, "\n")};
}

Result<JobFile> parse_job_file(const std::string& text, const std::string& path) {
  const ParsedText parsed = parse_documents(text);
  if (!parsed.problems.empty()) return to_error(parsed.problems, path);
  if (parsed.documents.size() != 1) {
    return Error{ErrorCode::kInvalidArgument, path + ": must hold one document"};
  }
  const Document& document = parsed.documents.front();
  Checked checked = check_and_default(job_file_fields(), document.value, "", &document);
  if (!checked.problems.empty()) return to_error(checked.problems, path);

  const auto ranks = checked.value.at("ranks").get<int64_t>();
  const json& given = checked.value.at("train");
  Problems problems = check_train_relations(given, ranks, "train");
  for (Problem& problem : problems) problem.line = document.line_of(problem.path);
  if (!problems.empty()) return to_error(problems, path);

  json resolved = resolve_train(given, ranks).train;
  if (!is_hub_reference(given.at("model").value("path", ""))) {
    ASSIGN_OR_RETURN(resolved, complete_train(given, ranks));
  }
  ASSIGN_OR_RETURN(TrainConfig train, decode_with_teacher(resolved));
  return JobFile{.name = checked.value.at("name").get<std::string>(),
                 .ranks = ranks,
                 .train = std::move(train),
                 .train_json = resolved.dump()};
}

}  // namespace

int num_moments(const OptimizerConfig& optimizer) {
  if (optimizer.kind != OptimizerConfig::Kind::kSgd) return 2;
  return optimizer.momentum > 0 ? 1 : 0;
}

bool saves_behind_training(const TrainConfig& train) {
  if (!train.checkpoint.async) return false;
  if (train.evaluation.early_stopping_patience > 0) return true;  // saves its best models
  const int64_t every = train.checkpoint.every_steps;
  return every > 0 && (train.steps == 0 || every < train.steps);
}

TrainConfig decode_train(const json& train) {
  const json defaulted = check_and_default(train_fields(), train, "").value;
  const json full = resolve_train(defaulted, 1).train;
  const json& evaluation = full.at("evaluation");
  const auto steps = full.value("steps", int64_t{0});
  const json& batch = full.at("batch");
  const bool has_config = full.at("model").contains("config");
  const Task task = decode_task(full.at("task"));
  const ModelConfig model =
      has_config ? decode_model(full.at("model").at("config"), task) : ModelConfig();
  return {.task = task,
          .preference = decode_preference(full),
          .distill = decode_distill(full),
          .model = model,
          .model_source = {.path = full.at("model").value("path", ""),
                           .is_pretrained = full.at("model").at("init") == "pretrained"},
          .frozen = has_config ? decode_frozen(full, model.num_hidden_layers) : std::vector<bool>(),
          .lora = decode_lora(full),
          .tokenizer = decode_tokenizer(full),
          .data = decode_data(full.at("data")),
          .batch = {.global_batch_size = batch.at("globalBatchSize").get<int64_t>(),
                    .micro_batch_size = batch.at("microBatchSize").get<int64_t>()},
          .steps = steps,
          .epochs = full.value("epochs", 0.0),
          .precision = decode_dtype(full.at("precision")),
          .loss_scale = decode_loss_scale(full),
          .non_finite = {.max_consecutive_skips =
                             full.at("nonFinite").at("maxConsecutiveSkips").get<int64_t>()},
          .parallelism = decode_parallelism(full.at("parallelism")),
          .activation_checkpointing =
              decode_activation_checkpointing(full.at("activationCheckpointing")),
          .offload = decode_offload(full.at("offload")),
          .optimizer = decode_optimizer(full.at("optimizer")),
          .schedule = decode_schedule(full.at("schedule"), steps),
          .checkpoint = decode_checkpoint(full.at("checkpoint")),
          .evaluation = {.every_steps = evaluation.at("everySteps").get<int64_t>(),
                         .early_stopping_patience =
                             evaluation.at("earlyStoppingPatience").get<int64_t>()},
          .export_at_end = full.at("export").at("atEnd").get<bool>(),
          .export_dtype = decode_dtype(full.at("export").at("dtype")),
          .logging = decode_logging(full.at("logging")),
          .communication = decode_communication(full.at("communication")),
          .seed = full.at("seed").get<int64_t>()};
}

Result<json> complete_train(const json& train, int64_t ranks) {
  ASSIGN_OR_RETURN(const json known, with_model_of_path(train));
  Problems problems = check_train_relations(as_inline_model(known), ranks, "train");
  if (problems.empty()) problems = check_lora_targets(known, "train");
  if (!problems.empty()) return to_error(problems, known.at("model").value("path", ""));
  return resolve_train(known, ranks).train;
}

Result<TrainConfig> with_steps(const std::string& train_json, int64_t steps) {
  json train = json::parse(train_json);
  train.erase("epochs");
  train["steps"] = steps;
  const Problems problems = check_train_relations(as_inline_model(train), 1, "train");
  if (!problems.empty()) return to_error(problems, "with " + std::to_string(steps) + " steps");
  return decode_with_teacher(train);
}

Result<JobFile> load_job_file(const std::string& path) {
  const Result<std::string> text = read_text_file(path);
  if (!text) {
    return Error{text.error().code, "the job file: " + text.error().message,
                 "LOCKSTEP_JOB must name it"};
  }
  return parse_job_file(*text, path);
}

std::string JobFile::train_json_here() const {
  return with_fields(json::parse(train_json), places).dump();
}

Result<JobFile> with_places(JobFile job, FieldTexts places) {
  job.places = std::move(places);
  const FieldTexts written = texts_of(hub_inputs(json::parse(job.train_json)));
  ASSIGN_OR_RETURN(const json here, complete_train(json::parse(job.train_json_here()), job.ranks));
  ASSIGN_OR_RETURN(job.train, decode_with_teacher(here));
  job.train_json = with_fields(here, written).dump();
  return job;
}

}  // namespace lockstep::common

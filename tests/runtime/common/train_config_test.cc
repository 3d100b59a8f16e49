#include "runtime/common/train_config.h"

#include <filesystem>
#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "runtime/common/schema.h"
#include "runtime/common/train_fields.h"
#include "tests/runtime/common/minimal_train.h"

namespace lockstep::common {
namespace {

using nlohmann::json;
using testing::HasSubstr;

json normalise(const json& train, int64_t ranks) {
  return resolve_train(check_and_default(train_fields(), train, "train").value, ranks).train;
}

TEST(TrainConfigTest, DefaultsAreThoseOfTheDesign) {
  ASSERT_TRUE(check_train(minimal(), 4, "train").empty());
  const TrainConfig config = decode_train(minimal());
  EXPECT_EQ(config.model.model_type, "llama");
  EXPECT_EQ(config.model.num_key_value_heads, 4);
  EXPECT_EQ(config.model.head_dim, 16);
  EXPECT_EQ(config.model.max_position_embeddings, 2048);
  EXPECT_EQ(config.model.rms_norm_eps, 1e-6);
  EXPECT_EQ(config.model.rope_theta, 10000.0);
  EXPECT_EQ(config.model.initializer_range, 0.02);
  EXPECT_TRUE(config.data.shuffle);
  EXPECT_EQ(config.batch.global_batch_size, 8);
  EXPECT_EQ(config.batch.micro_batch_size, 1);
  EXPECT_EQ(config.parallelism.strategy, Strategy::kAuto);
  EXPECT_EQ(config.optimizer.kind, OptimizerConfig::Kind::kAdamW);
  EXPECT_EQ(config.optimizer.lr, 3e-4);
  EXPECT_EQ(config.optimizer.beta1, 0.9);
  EXPECT_EQ(config.optimizer.beta2, 0.95);
  EXPECT_EQ(config.optimizer.eps, 1e-8);
  EXPECT_EQ(config.optimizer.weight_decay, 0.1);
  EXPECT_TRUE(config.optimizer.decay_matrices_only);
  EXPECT_EQ(config.optimizer.gradient_clip, 1.0);
  EXPECT_EQ(config.schedule.kind, ScheduleConfig::Kind::kCosine);
  EXPECT_EQ(config.schedule.warmup_steps, 3);
  EXPECT_EQ(config.schedule.warmup, ScheduleConfig::Warmup::kLinear);
  EXPECT_EQ(config.schedule.warmup_min_lr, 0.0);
  EXPECT_EQ(config.schedule.decay_steps, 97);
  EXPECT_EQ(config.schedule.min_lr_ratio, 0.1);
  EXPECT_EQ(config.checkpoint.every_steps, 500);
  EXPECT_EQ(config.checkpoint.keep, 2);
  EXPECT_TRUE(config.checkpoint.resume);
  EXPECT_TRUE(config.checkpoint.async);
  EXPECT_EQ(config.checkpoint.grace_period_seconds, 120);
  EXPECT_TRUE(config.export_at_end);
  EXPECT_EQ(config.export_dtype, DType::kFp32);
  EXPECT_EQ(config.precision, DType::kFp32);
  EXPECT_EQ(config.loss_scale.fixed, 0);
  EXPECT_EQ(config.loss_scale.initial_power, 16);
  EXPECT_EQ(config.loss_scale.window, 1000);
  EXPECT_EQ(config.loss_scale.hysteresis, 2);
  EXPECT_EQ(config.loss_scale.min, 1);
  EXPECT_EQ(config.non_finite.max_consecutive_skips, 3);
  EXPECT_EQ(config.communication.backend, CommunicationConfig::Backend::kAuto);
  EXPECT_EQ(config.communication.timeout_seconds, 600);
  EXPECT_EQ(config.seed, 42);
}

TEST(TrainConfigTest, EveryFieldThatIsGivenArrives) {
  json train = minimal();
  train["model"]["config"].update(json::parse(
      R"({"num_key_value_heads": 2, "head_dim": 32, "rope_theta": 500000,
          "architectures": ["LlamaForCausalLM"], "tie_word_embeddings": false})"));
  train["data"]["shuffle"] = false;
  train["batch"]["microBatchSize"] = 2;
  train["parallelism"]["strategy"] = "zero3";
  train["optimizer"] =
      json::parse(R"({"lr": 1, "betas": [0, 0.5], "weightDecayOn": "all", "gradientClip": 0})");
  train["schedule"] = json::parse(R"({"name": "linear", "warmupSteps": 7, "minLrRatio": 0,
                                         "warmupType": "log", "warmupMinLr": 1e-5,
                                         "decaySteps": 500})");
  train["checkpoint"] =
      json::parse(R"({"everySteps": 0, "keep": 5, "resume": "never", "async": false})");
  train["export"]["atEnd"] = false;
  train["communication"] = json::parse(R"({"backend": "shared-memory", "timeoutSeconds": 9})");
  train["seed"] = 7;
  ASSERT_TRUE(check_train(train, 4, "train").empty());
  const TrainConfig config = decode_train(train);
  EXPECT_EQ(config.model.num_key_value_heads, 2);
  EXPECT_EQ(config.model.head_dim, 32);
  EXPECT_EQ(config.model.rope_theta, 500000.0);
  EXPECT_FALSE(config.data.shuffle);
  EXPECT_EQ(config.batch.micro_batch_size, 2);
  EXPECT_EQ(config.parallelism.strategy, Strategy::kZero3);
  EXPECT_EQ(config.optimizer.beta2, 0.5);
  EXPECT_FALSE(config.optimizer.decay_matrices_only);
  EXPECT_EQ(config.schedule.kind, ScheduleConfig::Kind::kLinear);
  EXPECT_EQ(config.schedule.warmup_steps, 7);
  EXPECT_EQ(config.schedule.warmup, ScheduleConfig::Warmup::kLog);
  EXPECT_EQ(config.schedule.warmup_min_lr, 1e-5);
  EXPECT_EQ(config.schedule.decay_steps, 500);
  EXPECT_FALSE(config.checkpoint.resume);
  EXPECT_EQ(config.checkpoint.resume_from, "");
  EXPECT_FALSE(config.checkpoint.async);
  EXPECT_FALSE(config.export_at_end);
  EXPECT_EQ(config.communication.backend, CommunicationConfig::Backend::kSharedMemory);
  EXPECT_EQ(config.seed, 7);
}

TEST(TrainConfigTest, ConstantScheduleHasNoWarmupUnlessAsked) {
  EXPECT_EQ(decode_train(with("/schedule", {{"name", "constant"}})).schedule.warmup_steps, 0);
  const json asked = with("/schedule", {{"name", "constant"}, {"warmupRatio", 0.5}});
  EXPECT_EQ(decode_train(asked).schedule.warmup_steps, 50);
}

TEST(TrainConfigTest, AnyTwoOfTheBatchFieldsDecideTheThird) {
  struct Case {
    const char* batch;
    int64_t ranks, global, micro;
  };
  const std::vector<Case> table = {
      {R"({"globalBatchSize": 12})", 3, 12, 1},
      {R"({"globalBatchSize": 12, "microBatchSize": 2})", 3, 12, 2},
      {R"({"globalBatchSize": 12, "accumulationSteps": 2})", 3, 12, 2},
      {R"({"microBatchSize": 2, "accumulationSteps": 4})", 3, 24, 2},
      {R"({"globalBatchSize": 24, "microBatchSize": 2, "accumulationSteps": 4})", 3, 24, 2},
  };
  for (const Case& c : table) {
    const json train = with("/batch", json::parse(c.batch));
    EXPECT_TRUE(check_train(train, c.ranks, "train").empty()) << c.batch;
    const json batch = normalise(train, c.ranks)["batch"];
    EXPECT_EQ(batch, json({{"globalBatchSize", c.global}, {"microBatchSize", c.micro}})) << c.batch;
  }
}

TEST(TrainConfigTest, EveryBrokenRelationIsNamedOnce) {
  struct Case {
    json train;
    int64_t ranks;
    std::string path, message;
  };
  const std::vector<Case> table = {
      {with("/batch/globalBatchSize", 10), 4, "t.batch.globalBatchSize",
       "makes 10 micro-batches, which 4 ranks cannot share evenly (rank counts that work: 1, 2, 5, "
       "10)"},
      {with("/batch/microBatchSize", 3), 1, "t.batch.globalBatchSize",
       "must be divisible by microBatchSize 3, found 8"},
      {with("/batch", {{"microBatchSize", 3}}), 1, "t.batch.globalBatchSize",
       "is required (give globalBatchSize, or microBatchSize and accumulationSteps)"},
      {with("/batch", {{"globalBatchSize", 8}, {"accumulationSteps", 3}}), 2,
       "t.batch.globalBatchSize", "must be divisible by accumulationSteps * ranks = 6, found 8"},
      {with("/batch", {{"globalBatchSize", 8}, {"microBatchSize", 2}, {"accumulationSteps", 3}}), 1,
       "t.batch.accumulationSteps",
       "globalBatchSize 8 is not microBatchSize 2 * accumulationSteps 3 * ranks 1"},
      {with("/model/config/num_key_value_heads", 3), 1, "t.model.config.num_key_value_heads",
       "must divide num_attention_heads 4, found 3"},
      {with("/model/config/hidden_size", 66), 1, "t.model.config.hidden_size",
       "must be divisible by num_attention_heads 4, found 66 (or give head_dim)"},
      {with("/model/config/hidden_size", 60), 1, "t.model.config.num_attention_heads",
       "the width of a head must be even and at most 256, found 15"},
      {with("/model/config/hidden_size", 2048), 1, "t.model.config.num_attention_heads",
       "the width of a head must be even and at most 256, found 512"},
      {with("/model/config/head_dim", 15), 1, "t.model.config.head_dim",
       "the width of a head must be even and at most 256, found 15"},
      {with("/parallelism", {{"strategy", "zero2"}, {"shardRanks", 2}}), 2,
       "t.parallelism.shardRanks", "needs strategy zero3, found \"zero2\""},
      {with("/parallelism/shardRanks", 3), 2, "t.parallelism.shardRanks",
       "must divide the ranks, 2, found 3"},
      {with("/parallelism/shardRanks", 1), 2, "t.parallelism.shardRanks",
       "must be 0 or at least 2, found 1 (for a whole copy on every rank choose strategy ddp)"},
      {with("/parallelism/reduceDtype", "bf16"), 2, "t.parallelism.reduceDtype",
       "bf16 needs reduction fast: rounded gradients have other bits on every rank count"},
      {with("/parallelism/bucketBytes", "1Ki"), 2, "t.parallelism.bucketBytes",
       "must be from 64Ki to 4Gi, found \"1Ki\""},
      {with("/parallelism/bucketBytes", 65535), 2, "t.parallelism.bucketBytes",
       "must be from 64Ki to 4Gi, found 65535"},
      {with("/model/config/vocab_size", 255), 1, "t.model.config.vocab_size",
       "must be at least 256 for the bytes tokenizer, found 255"},
      {with("/data/sequenceLength", 4096), 1, "t.data.sequenceLength",
       "must be at most model.config.max_position_embeddings 2048, found 4096"},
      {with("/schedule/warmupSteps", 101), 1, "t.schedule.warmupSteps",
       "must be at most steps 100, found 101"},
      {with("/schedule", {{"warmupSteps", 1}, {"warmupRatio", 0.1}}), 1, "t.schedule.warmupSteps",
       "and warmupRatio exclude each other"},
      {with("/schedule", {{"name", "constant"}, {"decaySteps", 5}}), 1, "t.schedule.decaySteps",
       "must not be given: a constant schedule never falls (remove it, or set name to wsd)"},
      {with("/schedule", {{"name", "wsd"}, {"warmupSteps", 60}, {"decaySteps", 41}}), 1,
       "t.schedule.decaySteps", "must be at most steps - warmupSteps = 40, found 41"},
      {with("/schedule", {{"name", "wsd"}, {"decaySteps", 98}}), 1, "t.schedule.decaySteps",
       "must be at most steps - warmupSteps = 97, found 98"},
      {with("/epochs", 3), 1, "t.epochs", "and steps exclude each other (give one of them)"},
      {with("/steps", nullptr), 1, "t.steps", "is required (or give epochs)"},
      {with("/evaluation/everySteps", 10), 1, "t.evaluation.everySteps",
       "needs data.validation or data.validationFraction (name the data to measure on)"},
      {with("/evaluation/earlyStoppingPatience", 2), 1, "t.evaluation.earlyStoppingPatience",
       "needs evaluation.everySteps (say how often to evaluate)"},
      {with("/optimizer/momentum", 0.9), 1, "t.optimizer.momentum",
       "is of sgd only, name is adamw (remove it)"},
      {with("/optimizer", {{"name", "adam"}, {"nesterov", false}}), 1, "t.optimizer.nesterov",
       "is of sgd only, name is adam"},
      {with("/optimizer", {{"name", "sgd"}, {"nesterov", true}}), 1, "t.optimizer.nesterov",
       "needs a momentum above 0 (give optimizer.momentum)"},
      {with("/schedule/warmupMinLr", 0.001), 1, "t.schedule.warmupMinLr",
       "must be at most optimizer.lr 0.0003, found 0.001"},
      {with("/model/frozen", {"layer.9"}), 1, "t.model.frozen",
       "\"layer.9\" is beyond the last layer, 1 (name embedding, head"},
      {with("/lossScale", json::object()), 1, "t.lossScale",
       "needs precision fp16, found \"fp32\" (remove it: only fp16"},
  };
  for (const Case& c : table) {
    const Problems problems = check_train(c.train, c.ranks, "t");
    ASSERT_EQ(problems.size(), 1U) << c.message;
    EXPECT_EQ(problems[0].path, c.path) << c.message;
    EXPECT_THAT(to_string(problems[0], ""), HasSubstr(c.message));
  }
}

TEST(TrainConfigTest, FrozenUnitsAreNamedInTheModel) {
  EXPECT_TRUE(decode_train(minimal()).frozen.empty());
  const json train = with("/model/frozen", {"embedding", "layer.0"});
  ASSERT_TRUE(check_train(train, 1, "t").empty());
  const TrainConfig config = decode_train(train);
  EXPECT_TRUE(is_frozen(config, 0));
  EXPECT_TRUE(is_frozen(config, 1));
  EXPECT_FALSE(is_frozen(config, 2));
  const Problems problems = check_train(with("/model/frozen", {"norm"}), 1, "t");
  ASSERT_EQ(problems.size(), 1U);
  EXPECT_EQ(problems[0].path, "t.model.frozen[0]");
}

TEST(TrainConfigTest, LossScaleIsFilledUpWithItsDefaults) {
  json train = with("/lossScale", {{"window", 5}, {"min", 0.5}});
  train["precision"] = "fp16";
  train["export"]["dtype"] = "bf16";
  ASSERT_TRUE(check_train(train, 1, "t").empty());
  const TrainConfig config = decode_train(train);
  EXPECT_EQ(config.precision, DType::kFp16);
  EXPECT_EQ(config.export_dtype, DType::kBf16);
  EXPECT_EQ(config.loss_scale.window, 5);
  EXPECT_EQ(config.loss_scale.min, 0.5);
  EXPECT_EQ(config.loss_scale.initial_power, 16);
}

TEST(TrainConfigTest, WhatIsKnownButNotHonouredIsRefusedAsNotSupported) {
  const std::vector<std::pair<const char*, json>> table = {
      {"/precision", "fp8"},
      {"/model/config/torch_dtype", "bfloat16"},
      {"/parallelism/strategy", "fsdp"},
      {"/communication/backend", "nccl"},
  };
  for (const auto& [pointer, value] : table) {
    const Problems problems = check_train(with(pointer, value), 1, "t");
    ASSERT_EQ(problems.size(), 1U) << pointer;
    EXPECT_THAT(problems[0].message, HasSubstr("is not supported by this version")) << pointer;
  }
}

TEST(TrainConfigTest, BoundsAreHeld) {
  const std::vector<std::pair<const char*, json>> table = {
      {"/steps", 0},
      {"/data/loaderThreads", 65},
      {"/data/prefetchBatches", 0},
      {"/data/columns/text", ""},
      {"/schedule/decaySteps", 0},
      {"/optimizer/betas", {0.9, 1.0}},
      {"/optimizer/betas", {0.9}},
      {"/optimizer/lr", -1},
      {"/optimizer/eps", 0},
      {"/optimizer/weightDecay", -1},
      {"/checkpoint/keep", 0},
      {"/seed", -1},
      {"/data/train", ""},
      {"/model/config/rms_norm_eps", 0},
      {"/model/config/architectures", {"GPT2LMHeadModel"}},
      {"/model/config/hidden_act", "tanh"},
      {"/communication/timeoutSeconds", 0},
      {"/batch/globalBatchSize", INT64_MAX},
  };
  for (const auto& [pointer, value] : table) {
    EXPECT_EQ(check_train(with(pointer, value), 1, "t").size(), 1U) << pointer;
  }
}

TEST(TrainConfigTest, NormalisingTwiceIsNormalisingOnceAndDoesNotDependOnRanks) {
  uint64_t state = 7;
  const auto pick = [&](int64_t bound) {
    state = state * 6364136223846793005ULL + 1442695040888963407ULL;
    return static_cast<int64_t>((state >> 33) % static_cast<uint64_t>(bound));
  };
  const std::vector<json> values = {0,       1,     4,     -3,   0.25,    "x",
                                    "zero3", "wsd", "sgd", true, nullptr, json::object()};
  const std::vector<const char*> pointers = {"/batch/microBatchSize",
                                             "/batch/accumulationSteps",
                                             "/batch/globalBatchSize",
                                             "/schedule/warmupRatio",
                                             "/schedule/warmupSteps",
                                             "/schedule/name",
                                             "/schedule/decaySteps",
                                             "/model/config/head_dim",
                                             "/model/config/num_key_value_heads",
                                             "/steps",
                                             "/optimizer/lr",
                                             "/optimizer/name",
                                             "/optimizer/momentum",
                                             "/optimizer/weightDecay",
                                             "/model/config",
                                             "/unknown",
                                             "/batch",
                                             "/data"};
  for (int round = 0; round < 500; ++round) {
    json train = minimal();
    for (int64_t i = 0; i <= pick(3); ++i) {
      const auto& pointer =
          pointers[static_cast<size_t>(pick(static_cast<int64_t>(pointers.size())))];
      const json& value = values[static_cast<size_t>(pick(static_cast<int64_t>(values.size())))];
      const json::json_pointer at(pointer);
      if (!train.contains(at.parent_pointer()) || train[at.parent_pointer()].is_object()) {
        train[at] = value;
      }
    }
    const int64_t ranks = 1 + pick(4);
    const json once = normalise(train, ranks);
    EXPECT_EQ(normalise(once, ranks).dump(), once.dump()) << train.dump();
    EXPECT_EQ(check_train(once, ranks, "t").empty(), check_train(train, ranks, "t").empty())
        << train.dump();
    if (check_train(once, ranks, "t").empty()) {
      EXPECT_EQ(normalise(once, 1).dump(), once.dump());
      EXPECT_NO_THROW({ const TrainConfig ignored = decode_train(once); });
    }
  }
}

class JobFileTest : public testing::Test {
 protected:
  Result<JobFile> load(const std::string& text) {
    const std::string path =
        testing::TempDir() + "/lockstep_job_file_test_" + std::to_string(::getpid()) + ".json";
    std::ofstream(path) << text;
    Result<JobFile> result = load_job_file(path);
    std::filesystem::remove(path);
    return result;
  }
};

TEST_F(JobFileTest, ReadsWhatThePlannerWrites) {
  const json job = {{"name", "tiny"}, {"ranks", 4}, {"train", normalise(minimal(), 4)}};
  const Result<JobFile> file = load(job.dump());
  ASSERT_TRUE(file.has_value()) << file.error().message;
  EXPECT_EQ(file->name, "tiny");
  EXPECT_EQ(file->ranks, 4);
  EXPECT_EQ(file->train.steps, 100);
  EXPECT_EQ(file->train_json, job["train"].dump());
}

TEST_F(JobFileTest, SameTrainJsonHoweverItWasWritten) {
  json verbose = minimal();
  verbose["optimizer"]["weightDecay"] = 0.1;
  verbose["model"]["config"]["rope_theta"] = 10000;
  verbose["batch"]["accumulationSteps"] = 2;
  const Result<JobFile> a = load(json({{"name", "a"}, {"ranks", 4}, {"train", verbose}}).dump(2));
  const Result<JobFile> b = load(json({{"name", "b"}, {"ranks", 2}, {"train", minimal()}}).dump());
  ASSERT_TRUE(a.has_value() && b.has_value());
  EXPECT_EQ(a->train_json, b->train_json);
}

TEST_F(JobFileTest, ErrorsNamePathAndLine) {
  json train = minimal();
  train["stepz"] = 3;
  const Result<JobFile> unknown =
      load(json({{"name", "a"}, {"ranks", 1}, {"train", train}}).dump(1));
  ASSERT_FALSE(unknown.has_value());
  EXPECT_EQ(unknown.error().code, ErrorCode::kInvalidArgument);
  EXPECT_THAT(unknown.error().message, HasSubstr(": train.stepz: unknown field"));
  EXPECT_THAT(unknown.error().message, testing::ContainsRegex("json:[0-9]+: train"));

  const Result<JobFile> uneven =
      load(json({{"name", "a"}, {"ranks", 3}, {"train", minimal()}}).dump());
  ASSERT_FALSE(uneven.has_value());
  EXPECT_THAT(uneven.error().message, HasSubstr(":1: train.batch.globalBatchSize: makes 8"));

  EXPECT_THAT(load("{\"name\": ").error().message, HasSubstr("line 1, column"));
  EXPECT_EQ(load_job_file("/nonexistent/job.json").error().code, ErrorCode::kNotFound);
  const Result<JobFile> folder = load_job_file(testing::TempDir());
  EXPECT_THAT(folder.error().message, HasSubstr("Is a directory"));
}

}  // namespace
}  // namespace lockstep::common

#include "operator/api/codec.h"

#include <gtest/gtest.h>

#include "operator/api/job_check.h"
#include "operator/api/job_fields.h"
#include "runtime/common/schema.h"

namespace lockstep::api {
namespace {

using nlohmann::json;

Time at(int64_t seconds) {
  return Time(std::chrono::seconds(seconds));
}

json job_object() {
  return json::parse(R"({
    "apiVersion": "lockstep.dev/v1alpha1", "kind": "TrainingJob",
    "metadata": {"name": "tiny", "namespace": "ns", "uid": "u-1", "resourceVersion": "12",
                 "generation": 3, "creationTimestamp": "2026-01-31T12:00:00Z",
                 "deletionTimestamp": null, "labels": {"a": "b"}, "managedFields": []},
    "spec": {
      "ranks": 2, "image": "r/i:1", "imagePullSecrets": [{"name": "s"}],
      "env": [{"name": "A", "value": "1"}, {"name": "B"}],
      "resources": {"limits": {"cpu": "2", "nvidia.com/gpu": 1}},
      "inputs": [{"name": "c", "mountPath": "/data", "persistentVolumeClaim": {"claimName": "c"}}],
      "output": {"hostPath": {"path": "/out"}},
      "train": {
        "model": {"config": {"vocab_size": 256, "hidden_size": 64, "intermediate_size": 128,
                             "num_hidden_layers": 2, "num_attention_heads": 4}},
        "data": {"train": "corpus", "sequenceLength": 32},
        "batch": {"microBatchSize": 2, "accumulationSteps": 3},
        "steps": 100}}})");
}

TrainingJobStatus full_status() {
  return {.observed_generation = 3,
          .state = "Running",
          .attempt = 2,
          .restarts = 1,
          .budget = {.used = 1, .checkpoint_step = 100},
          .restart_not_before = at(1800000000),
          .gang_releases = 2,
          .strategy = "zero3",
          .message = "training",
          .selector = "lockstep.dev/job-name=tiny",
          .start_time = at(1700000000),
          .completion_time = at(1700009999),
          .conditions = {{.type = "Running",
                          .status = ConditionStatus::kTrue,
                          .reason = "AllRanksRunning",
                          .message = "4 of 4",
                          .observed_generation = 3,
                          .last_transition_time = at(1700000001)},
                         {.type = "Failed", .status = ConditionStatus::kFalse}},
          .ranks = {.desired = 4, .pending = 1, .running = 3},
          .progress = ProgressStatus{.step = 120,
                                     .total_steps = 1000,
                                     .loss = "2.3147",
                                     .tokens_per_second = 41200,
                                     .eta_seconds = 5520,
                                     .last_checkpoint_step = 100,
                                     .last_update_time = at(1700000500)},
          .first_failure = FirstFailure{.attempt = 1,
                                        .rank = 3,
                                        .node = "n7",
                                        .step = 121,
                                        .exit_code = 77,
                                        .reason = "OutOfMemory",
                                        .message = "no memory",
                                        .hint = "use fewer",
                                        .time = at(1700000400)},
          .straggler = Straggler{.rank = 2, .node = "n3", .ratio = "1.80"},
          .queue = QueueStatus{"team", "tiny-1234-0"},
          .gang = GangStatus{"volcano", "tiny-1234-0", 4},
          .node_failures = {{"n7", 3}, {"n3", 1}},
          .goodput = Goodput{.phase = "Productive",
                             .since = at(1700000450),
                             .queued_seconds = 1,
                             .scheduling_seconds = 2,
                             .starting_seconds = 3,
                             .productive_seconds = 90,
                             .lost_seconds = 4,
                             .down_seconds = 5,
                             .suspended_seconds = 6,
                             .lost_steps = 21,
                             .attempt = 2,
                             .first_step = 100,
                             .attempt_seconds = 7}};
}

TEST(CodecTest, JobWrittenBeforeDefaultsIsReadWithDefaultsAndResolved) {
  const common::Result<TrainingJob> job = decode_job(job_object());
  ASSERT_TRUE(job.has_value()) << job.error().message;
  EXPECT_EQ(job->meta.ns, "ns");
  EXPECT_EQ(job->meta.name, "tiny");
  EXPECT_EQ(job->meta.generation, 3);
  EXPECT_EQ(job->meta.creation_time, parse_time("2026-01-31T12:00:00Z"));
  EXPECT_FALSE(job->meta.deletion_time.has_value());
  EXPECT_EQ(job->meta.labels.at("a"), "b");
  EXPECT_EQ(job->spec.image_pull_secrets, std::vector<std::string>{"s"});
  EXPECT_EQ(job->spec.env, (std::map<std::string, std::string>{{"A", "1"}, {"B", ""}}));
  EXPECT_EQ(job->spec.failure_policy.max_restarts, 3);
  EXPECT_EQ(job->spec.scheduling.gang_timeout, std::chrono::seconds(300));
  EXPECT_EQ(job->spec.clean_pod_policy, CleanPodPolicy::kRunning);
  EXPECT_FALSE(job->spec.suspend);
  EXPECT_EQ(job->spec.train["batch"], json({{"globalBatchSize", 12}, {"microBatchSize", 2}}));
  EXPECT_EQ(job->spec.train["schedule"]["warmupSteps"], 3);
  EXPECT_EQ(job->spec.output, json::parse(R"({"hostPath": {"path": "/out"}})"));
  EXPECT_TRUE(check_job(*job).empty());
}

TEST(CodecTest, JobWithACommandHasNoTrain) {
  json object = job_object();
  object["spec"].erase("train");
  object["spec"]["command"] = {"python", "train.py"};
  object["spec"]["args"] = {"--x"};
  const common::Result<TrainingJob> job = decode_job(object);
  ASSERT_TRUE(job.has_value());
  EXPECT_TRUE(job->spec.train.is_null());
  EXPECT_EQ(job->spec.command, (std::vector<std::string>{"python", "train.py"}));
  EXPECT_TRUE(check_job(*job).empty());
}

TEST(CodecTest, WrongTrainIsKeptForTheCheckToRefuseWithItsPath) {
  json object = job_object();
  object["spec"]["train"]["stepz"] = 1;
  object["spec"]["train"]["seed"] = "x";
  const common::Result<TrainingJob> job = decode_job(object);
  ASSERT_TRUE(job.has_value());
  const common::Problems problems = check_job(*job);
  ASSERT_EQ(problems.size(), 2U);
  EXPECT_EQ(problems[0].path, "spec.train.stepz");
  EXPECT_EQ(problems[1].path, "spec.train.seed");
}

TEST(CodecTest, WhatNoJobCanHoldIsAnErrorWithItsPath) {
  const std::vector<std::tuple<const char*, json, const char*>> table = {
      {"/metadata/name", nullptr, "metadata.name: is required"},
      {"/spec/ranks", "two", "spec.ranks: must be an integer"},
      {"/spec/ranks", nullptr, "spec.ranks: is required"},
      {"/spec/suspend", 3, "spec.suspend: must be true or false"},
      {"/spec/command", "x", "spec.command: must be a list"},
      {"/spec", 7, "spec: must be a map"},
  };
  for (const auto& [pointer, value, message] : table) {
    json object = job_object();
    object[json::json_pointer(pointer)] = value;
    const common::Result<TrainingJob> job = decode_job(object);
    ASSERT_FALSE(job.has_value()) << pointer;
    EXPECT_EQ(job.error().message.substr(0, std::string(message).size()), message);
  }
  EXPECT_FALSE(decode_job(json()).has_value());
  EXPECT_FALSE(decode_job(json::array()).has_value());
}

TEST(CodecTest, StatusSurvivesTheRoundTrip) {
  for (const TrainingJobStatus& status : {full_status(), TrainingJobStatus{}}) {
    EXPECT_EQ(decode_status(encode_status(status)), status);
  }
}

TEST(CodecTest, StatusHasTheFormOfTheDesign) {
  const json status = encode_status(full_status());
  EXPECT_EQ(status["progress"]["summary"], "120/1000");
  EXPECT_EQ(status["progress"]["eta"], "1h32m");
  EXPECT_EQ(status["progress"]["loss"], "2.3147");
  EXPECT_EQ(status["ranks"]["summary"], "3/4");
  EXPECT_EQ(status["goodput"]["ratio"], "0.87");  // 90 of 104: neither queued nor suspended
  EXPECT_EQ(status["selector"], "lockstep.dev/job-name=tiny");
  EXPECT_EQ(status["conditions"][0]["status"], "True");
  EXPECT_EQ(status["startTime"], "2023-11-14T22:13:20Z");
}

TEST(CodecTest, JobThatDoesNotRunHasNoSpeedToShow) {
  TrainingJobStatus status = full_status();
  status.progress->tokens_per_second = 0;
  EXPECT_FALSE(encode_status(status)["progress"].contains("tokensPerSecond"));
  EXPECT_EQ(decode_status(encode_status(status)), status);
  EXPECT_EQ(goodput_ratio(Goodput{.queued_seconds = 9}), "");
}

TEST(CodecTest, LifeCycleFieldsAreRead) {
  json object = job_object();
  object["spec"]["managedBy"] = "lockstep.dev/operator";
  object["spec"]["activeDeadlineSeconds"] = 60;
  object["spec"]["ttlSecondsAfterFinished"] = 0;
  object["spec"]["failurePolicy"] = json::parse(R"({"stallTimeoutSeconds": 0, "rules": [
      {"exitCodes": [3, 4], "action": "Fail"}, {"reasons": ["OOMKilled"], "action": "RestartFree"},
      {"reasons": ["NonFinite"], "action": "Restart"}]})");
  const common::Result<TrainingJob> job = decode_job(object);
  ASSERT_TRUE(job.has_value()) << job.error().message;
  EXPECT_EQ(job->spec.managed_by, kOurController);
  EXPECT_EQ(job->spec.active_deadline, std::chrono::seconds(60));
  EXPECT_EQ(job->spec.ttl_after_finished, std::chrono::seconds(0));
  EXPECT_EQ(job->spec.failure_policy.stall_timeout, std::chrono::seconds(0));
  EXPECT_EQ(job->spec.failure_policy.max_restarts, 3);
  EXPECT_EQ(job->spec.failure_policy.rules,
            (std::vector<FailureRule>{
                {.exit_codes = {3, 4}, .reasons = {}, .action = RuleAction::kFail},
                {.exit_codes = {}, .reasons = {"OOMKilled"}, .action = RuleAction::kRestartFree},
                {.exit_codes = {}, .reasons = {"NonFinite"}, .action = RuleAction::kRestart}}));
  EXPECT_TRUE(check_job(*job).empty());
}

TEST(CodecTest, RuleWithBothOrNeitherListIsRefusedWithItsPath) {
  for (const char* rule :
       {R"({"exitCodes": [3], "reasons": ["x"], "action": "Fail"})", R"({"action": "Fail"})"}) {
    json object = job_object();
    object["spec"]["failurePolicy"]["rules"].push_back(json::parse(rule));
    const common::Result<TrainingJob> job = decode_job(object);
    ASSERT_TRUE(job.has_value());
    const common::Problems problems = check_job(*job);
    ASSERT_EQ(problems.size(), 1U) << rule;
    EXPECT_EQ(problems[0].path, "spec.failurePolicy.rules[0]");
  }
}

TEST(CodecTest, StatusIsWithinTheSchemaWhateverItsTexts) {
  TrainingJobStatus status = full_status();
  EXPECT_TRUE(
      common::check_and_default(status_fields(), encode_status(status), "status").problems.empty());
  const std::string wide = "\xC3\xA4";  // two bytes: a cut must not split it
  for (int i = 0; i < 5000; ++i) status.message += wide;
  status.first_failure->message = "bad \xff byte";
  status.conditions[0].message = std::string(100000, 'x');
  status.state = std::string(1000, 's');
  const json encoded = encode_status(status);
  EXPECT_TRUE(common::check_and_default(status_fields(), encoded, "status").problems.empty());
  EXPECT_NO_THROW({ const std::string ignored = encoded.dump(); });
  EXPECT_EQ(encoded["message"].get<std::string>().size(), 4096U);
  EXPECT_EQ(encoded["firstFailure"]["message"], "bad \xEF\xBF\xBD byte");
}

TEST(CodecTest, StatusOfAnyShapeIsRead) {
  for (const char* text : {"null", "[]", "3", R"({"conditions": 3, "ranks": [], "progress": {}})",
                           R"({"attempt": "x", "startTime": "yesterday", "conditions": [1]})"}) {
    EXPECT_EQ(decode_status(json::parse(text)).attempt, 0) << text;
  }
}

TEST(CodecTest, TimesAreRfc3339) {
  EXPECT_EQ(format_time(at(0)), "1970-01-01T00:00:00Z");
  for (const int64_t seconds : {int64_t{0}, int64_t{951827696}, int64_t{4102444800}}) {
    EXPECT_EQ(parse_time(format_time(at(seconds))), at(seconds));
  }
  EXPECT_EQ(parse_time("1970-01-01T01:00:00.123456Z"), at(3600));
  EXPECT_EQ(parse_time("1970-01-01T01:00:00+01:00"), at(0));
  EXPECT_EQ(parse_time("1969-12-31T23:30:00-00:30"), at(0));
  for (const char* text : {"", "1970-01-01", "1970-02-30T00:00:00Z", "1970-01-01T24:00:00Z",
                           "1970-01-01T00:00:00", "1970-01-01T00:00:00.Z", "1970-01-01 00:00:00Z",
                           "aaaa-01-01T00:00:00Z", "1970-01-01T00:00:00+0100"}) {
    EXPECT_EQ(parse_time(text), std::nullopt) << text;
  }
}

TEST(CodecTest, DurationsAreShort) {
  const std::vector<std::pair<int64_t, const char*>> table = {
      {-5, "0s"}, {45, "45s"}, {720, "12m"}, {90, "1m30s"}, {5520, "1h32m"}, {273600, "3d4h"}};
  for (const auto& [seconds, text] : table) {
    EXPECT_EQ(format_duration(std::chrono::seconds(seconds)), text);
  }
}

}  // namespace
}  // namespace lockstep::api

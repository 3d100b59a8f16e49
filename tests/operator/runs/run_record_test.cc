#include "operator/runs/run_record.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace lockstep::runs {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr const char* kMetrics =
    R"({"step": 1, "loss": 5.5, "slowest_rank": 1}
{"step": 2, "loss": null, "skipped": true, "slowest_rank": 1}
{"step": 2, "validation_loss": 4.0}
{"step": 3, "loss": 4.5, "slowest_rank": 0}
)";

std::string termination(int rank, const std::string& reason) {
  return R"({"rank":)" + std::to_string(rank) + R"(,"step":7,"reason":")" + reason +
         R"(","message":"m","hint":"h"})";
}

std::string line(const std::string& rest) {
  return "2026-11-21T13:20:04.811Z info " + rest + "\n";
}

TEST(RunRecordTest, ReadsTheSeriesByKey) {
  const RunRecord run = parse_run({.metrics = kMetrics});
  EXPECT_THAT(series_of(run, "loss"), ElementsAre(Point{1, 5.5}, Point{3, 4.5}));
  EXPECT_THAT(series_of(run, "validation_loss"), ElementsAre(Point{2, 4.0}));
  EXPECT_THAT(series_of(run, "nothing"), IsEmpty());
  EXPECT_THAT(run.skipped_steps, ElementsAre(2));
  EXPECT_EQ(run.slowest.at(1), 2);
  EXPECT_EQ(run.last_step, 3);
  EXPECT_THAT(run.troubles, IsEmpty());
}

TEST(RunRecordTest, NamesWhatItCannotRead) {
  const RunRecord run = parse_run({.metrics = "{\"step\": 1, \"loss\": 2}\ntorn\n[1]\n{\"step\":",
                                   .run = "touched by hand",
                                   .finished = "[]",
                                   .job = "{",
                                   .checkpoints = {{.step = 5, .manifest = "{}"}},
                                   .unreadable = {"logs is not a folder"}});
  EXPECT_THAT(
      run.troubles,
      ElementsAre("logs is not a folder", "run.json is not a JSON object",
                  "metrics.jsonl: 3 unreadable lines left out, the first is line 2",
                  "checkpoints/step-5/manifest.json is damaged",
                  "the job in logs/ is not a JSON object", "finished.json is not a JSON object"));
  EXPECT_THAT(series_of(run, "loss"), ElementsAre(Point{1, 2}));
  EXPECT_EQ(run.end, RunEnd::kUnfinished);
}

TEST(RunRecordTest, PutsStepsInOrderAndSaysSo) {
  const RunRecord run =
      parse_run({.metrics = "{\"step\":2,\"loss\":1}\n{\"step\":1,\"loss\":3}\n"});
  EXPECT_THAT(series_of(run, "loss"), ElementsAre(Point{1, 3}, Point{2, 1}));
  EXPECT_THAT(run.troubles, ElementsAre(HasSubstr("out of order")));
}

TEST(RunRecordTest, TakesTheConfigurationOfACheckpointWhereNoJobLies) {
  const std::string manifest =
      R"({"crc32c":"0","manifest":{"step":50,"attempt":2,"ranks":4,"strategy":"zero3",)"
      R"("train":"{\"steps\":80,\"seed\":7}"}})";
  const RunRecord run =
      parse_run({.checkpoints = {{.step = 50, .bytes = 9, .manifest = manifest}}});
  EXPECT_EQ(run.train["seed"], 7);
  EXPECT_EQ(run.total_steps, 80);
  EXPECT_EQ(run.ranks, 4);
  EXPECT_EQ(run.num_restarts, 2);
  EXPECT_EQ(run.last_step, 50);
}

TEST(RunRecordTest, KnowsTheCommitsOfInputsOnTheHub) {
  const std::string manifest =
      R"({"crc32c":"0","manifest":{"step":5,"hubCommits":{"hf://org/name@main":"0a1b"}}})";
  const RunRecord run = parse_run({.checkpoints = {{.step = 5, .bytes = 9, .manifest = manifest}}});
  EXPECT_EQ(run.hub_commits.at("hf://org/name@main"), "0a1b");
  const RunRecord odd = parse_run(
      {.checkpoints = {
           {.step = 5, .bytes = 9, .manifest = R"({"manifest":{"step":5,"hubCommits":[1]}})"}}});
  EXPECT_THAT(odd.hub_commits, IsEmpty());
}

TEST(RunRecordTest, TheNewestJobCountsMoreThanACheckpoint) {
  const RunRecord run = parse_run({.job = R"({"name":"mine","ranks":3,"train":{"steps":9}})"});
  EXPECT_EQ(run.job, "mine");
  EXPECT_EQ(run.ranks, 3);
  EXPECT_EQ(run.total_steps, 9);
}

TEST(RunRecordTest, TellsHowTheRunEnded) {
  const std::string good = line("memory when=end buffer_bytes=1");
  const struct {
    const char* name;
    RunFiles files;
    RunEnd end;
    std::string reason;
  } cases[] = {
      {"nothing known", {}, RunEnd::kUnfinished, ""},
      {"finished", {.finished = R"({"step":3})"}, RunEnd::kFinished, ""},
      {"a rank failed",
       {.logs = {{0, 0, "", termination(0, "PeerLost")}, {0, 1, "", termination(1, "NonFinite")}}},
       RunEnd::kFailed,
       "NonFinite"},
      {"one was killed",
       {.logs = {{0, 0, "", termination(0, "PeerLost")}, {0, 1, line("serving port=1"), ""}}},
       RunEnd::kFailed,
       "Killed"},
      {"all lost each other",
       {.logs = {{0, 0, "", termination(0, "PeerLost")}, {0, 1, "", termination(1, "PeerLost")}}},
       RunEnd::kFailed,
       "PeerLost"},
      {"stopped",
       {.logs = {{0, 0, "", termination(0, "Preempted")}, {0, 1, "", termination(1, "Preempted")}}},
       RunEnd::kStopped,
       ""},
      {"at work", {.logs = {{0, 0, line("step loss=1"), ""}}}, RunEnd::kUnfinished, ""},
      {"failed, and finished in the next attempt",
       {.finished = R"({"step":3})",
        .logs = {{0, 0, "", termination(0, "OutOfMemory")}, {1, 0, good, ""}}},
       RunEnd::kFinished,
       ""},
      {"another program's termination message",
       {.logs = {{0, 0, "", "Segmentation fault"}}},
       RunEnd::kUnfinished,
       ""},
  };
  for (const auto& one : cases) {
    const RunRecord run = parse_run(one.files);
    EXPECT_EQ(run.end, one.end) << one.name;
    EXPECT_EQ(run.failure ? run.failure->reason : "", one.reason) << one.name;
  }
}

TEST(RunRecordTest, ReadsAttemptsFromTheirLogs) {
  const std::string rank0 = line("connected backend=gloo") + line("strategy strategy=zero2") +
                            "not ours\n" + line("resumed step=50 folder=x") +
                            "2026-11-21T13:20:05.000Z warning no effect field=a\n";
  const RunRecord run = parse_run(
      {.logs = {{0, 0, "", termination(0, "PeerLost")}, {0, 1, "", ""}, {2, 0, rank0, ""}}});
  ASSERT_EQ(run.attempts.size(), 2U);
  EXPECT_THAT(run.attempts[0].ranks, ElementsAre(0, 1));
  EXPECT_THAT(run.attempts[0].silent_ranks, ElementsAre(1));
  EXPECT_EQ(cause_of(run.attempts[0])->rank, 1);
  EXPECT_EQ(run.attempts[1].backend, "gloo");
  EXPECT_EQ(run.attempts[1].strategy, "zero2");
  EXPECT_EQ(run.attempts[1].resumed_step, 50);
  EXPECT_EQ(run.attempts[1].begin_time, "2026-11-21T13:20:04.811Z");
  EXPECT_EQ(run.attempts[1].end_time, "2026-11-21T13:20:05.000Z");
  EXPECT_THAT(run.attempts[1].warnings, ElementsAre("warning no effect field=a"));
  EXPECT_EQ(run.num_restarts, 2);
}

}  // namespace
}  // namespace lockstep::runs

// What real ranks tell about their training, also across a kill and a resume, and that telling it
// changes nothing of it.
#include <algorithm>
#include <filesystem>
#include <iterator>
#include <map>

#include <gtest/gtest.h>
#include <signal.h>

#include "tests/support/event_reader.h"
#include "tests/support/paths.h"
#include "tests/support/tiny_job.h"

namespace lockstep::equivalence {
namespace {

using nlohmann::json;
using support::Gang;
using support::GangOptions;
using support::read_curve;
using support::read_text;

class RankTelemetryTest : public testing::Test {
 protected:
  void SetUp() override {
    support::write_text(folder_.path("corpus.txt"), support::tiny_corpus(40000));
  }

  GangOptions options(const std::string& name, int num_ranks, const json& logging,
                      int attempt = 0) const {
    GangOptions gang{.runtime = support::kRuntimeProgram,
                     .job = support::to_json({.ranks = num_ranks,
                                              .strategy = "zero3",
                                              .data = folder_.path("corpus.txt"),
                                              .steps = 6}),
                     .folder = folder_.path(name + ".files"),
                     .output = folder_.path(name),
                     .num_ranks = num_ranks,
                     .attempt = attempt};
    gang.job["train"]["logging"].update(logging);
    return gang;
  }

  GangOptions long_run(const std::string& name, int num_ranks, const json& logging,
                       int attempt) const {
    GangOptions gang = options(name, num_ranks, logging, attempt);
    gang.job["train"]["steps"] = 80;
    return gang;
  }

  static void train(const GangOptions& options) {
    Gang gang(options);
    EXPECT_EQ(gang.wait(), std::vector<int>(static_cast<std::size_t>(options.num_ranks), 0))
        << gang.log(0);
  }

  std::vector<json> metrics(const std::string& name) const {
    std::vector<json> lines;
    std::istringstream text(read_text(folder_.path(name) + "/metrics.jsonl"));
    for (std::string line; std::getline(text, line);) lines.push_back(json::parse(line));
    return lines;
  }

  support::TemporaryFolder folder_;
};

TEST_F(RankTelemetryTest, TensorBoardShowsEveryStepOnceAfterAKillAndAResume) {
  const json logging = {{"tensorboard", true}};
  train(long_run("reference", 1, json::object(), 0));
  bool was_killed = false;
  for (int run = 0; run < 20 && !was_killed; ++run) {
    std::filesystem::remove_all(folder_.path("killed"));
    Gang gang(long_run("killed", 2, logging, 0));
    gang.wait_until([&] {
      return std::filesystem::exists(folder_.path("killed") + "/checkpoints/step-8/manifest.json");
    });
    gang.send(1, SIGKILL);
    was_killed = gang.wait()[1] != 0;
  }
  ASSERT_TRUE(was_killed) << "the signal never came in mid-run";
  train(long_run("killed", 2, logging, 1));

  EXPECT_EQ(read_curve(folder_.path("killed")), read_curve(folder_.path("reference")));
  const auto events = support::read_events(folder_.path("killed") + "/tensorboard");
  EXPECT_EQ(std::count_if(events.begin(), events.end(),
                          [](const support::Event& event) { return event.is_session_start; }),
            2);
  const std::map<int64_t, float> losses = support::shown_scalars(events, "train/loss");
  const std::vector<json> lines = metrics("killed");
  ASSERT_EQ(losses.size(), lines.size());
  for (const json& line : lines) {
    EXPECT_EQ(losses.at(line.at("step").get<int64_t>()), line.at("loss").get<float>());
  }
}

// Complete spans of one thread of a rank, in order of their begin, outer ones first; times in
// microseconds.
struct Span {
  std::string name, category;
  double begin = 0, end = 0;
};
std::vector<Span> spans_of(const json& trace, int rank, int thread) {
  std::vector<Span> spans;
  for (const json& event : trace.at("traceEvents")) {
    if (event.at("ph") != "X" || event.at("pid") != rank || event.at("tid") != thread) continue;
    const auto begin = event.at("ts").get<double>();
    spans.push_back(
        {event.at("name"), event.at("cat"), begin, begin + event.at("dur").get<double>()});
  }
  std::sort(spans.begin(), spans.end(), [](const Span& a, const Span& b) {
    return a.begin != b.begin ? a.begin < b.begin : a.end > b.end;
  });
  return spans;
}

constexpr double kRounding = 0.002;  // times have three digits of a microsecond

// Every span lies within the one that it begins in.
void expect_nested(const std::vector<Span>& spans) {
  std::vector<const Span*> open;
  for (const Span& span : spans) {
    while (!open.empty() && open.back()->end <= span.begin + kRounding) open.pop_back();
    if (!open.empty()) {
      EXPECT_LE(span.end, open.back()->end + kRounding) << span.name << " in " << open.back()->name;
    }
    open.push_back(&span);
  }
}

// The profile of `name` covers steps 3 and 4 of `rank`.
void expect_profile(const json& trace, int rank) {
  const std::vector<Span> spans = spans_of(trace, rank, 0);
  expect_nested(spans);
  expect_nested(spans_of(trace, rank, 1));
  EXPECT_FALSE(spans_of(trace, rank, 1).empty()) << "collectives";
  std::vector<Span> steps;
  for (const Span& span : spans) {
    if (span.category == "step") steps.push_back(span);
  }
  ASSERT_EQ(steps.size(), 2U);
  EXPECT_EQ(steps[0].name, "step 3");
  EXPECT_EQ(steps[1].name, "step 4");
  std::map<std::string, int> counts;
  double covered = 0;
  for (const Span& span : spans) {
    if (span.begin < steps[0].begin || span.end > steps[0].end + kRounding) continue;
    ++counts[span.name];
    if (span.category != "step" && span.category != "wait") covered += span.end - span.begin;
  }
  // Parts follow one another without gaps, but for the first call of the step.
  EXPECT_GE(covered, 0.5 * (steps[0].end - steps[0].begin));
  EXPECT_LE(covered, steps[0].end - steps[0].begin + kRounding * 100);
  EXPECT_EQ(counts["data micro-batch"], 6) << "micro-batches of a rank";
  EXPECT_EQ(counts["forward layer.0"], 6);
  EXPECT_EQ(counts["backward layer.1"], 6);
  EXPECT_EQ(counts["optimizer update"], 1);
}

TEST_F(RankTelemetryTest, AProfileCoversItsStepsOnEveryRankAndChangesNoBit) {
  train(options("profiled", 2, {{"profile", {{"fromStep", 3}, {"steps", 2}}}}));
  train(options("plain", 2, json::object()));
  EXPECT_EQ(read_curve(folder_.path("profiled")), read_curve(folder_.path("plain")));
  EXPECT_FALSE(std::filesystem::exists(folder_.path("plain") + "/profile"));
  const std::filesystem::path folder = folder_.path("profiled") + "/profile";
  const json trace = json::parse(read_text(folder / "trace.json"));
  for (const int rank : {0, 1}) expect_profile(trace, rank);
  const auto entries = std::filesystem::directory_iterator(folder);
  EXPECT_EQ(std::distance(begin(entries), end(entries)), 1) << "only the whole trace is left";
}

TEST_F(RankTelemetryTest, PartsAddUpToTheStepOnAnyRankCount) {
  for (const int ranks : {1, 2, 3}) {
    const std::string name = "timed-" + std::to_string(ranks);
    train(options(name, ranks, {{"peakFlopsPerRank", 1e12}}));
    const std::vector<json> lines = metrics(name);
    ASSERT_EQ(lines.size(), 6U);
    double waited = 0;
    for (const json& line : lines) {
      double sum = 0;
      for (const char* const part : {"data", "forward", "backward", "communication", "optimizer"}) {
        EXPECT_GE(line.at(std::string(part) + "_seconds"), 0.0);
        sum += line.at(std::string(part) + "_seconds").get<double>();
      }
      EXPECT_DOUBLE_EQ(sum, line.at("step_seconds"));
      waited += line.at("communication_seconds").get<double>();
      EXPECT_GT(line.at("mfu"), 0.0);
      EXPECT_EQ(line.at("mfu"), line.at("flops_per_second").get<double>() / (ranks * 1e12));
      EXPECT_GT(line.at("busy_seconds_min"), 0.0);
      EXPECT_LE(line.at("busy_seconds_min"), line.at("busy_seconds_median"));
      EXPECT_LE(line.at("busy_seconds_median"), line.at("busy_seconds_max"));
      EXPECT_GE(line.at("buffer_peak_bytes"), line.at("buffer_bytes"));
      EXPECT_GE(line.at("resident_peak_bytes"), line.at("resident_bytes"));
      EXPECT_GT(line.at("buffer_bytes"), 0);
    }
    EXPECT_EQ(waited > 0, ranks > 1) << waited;
  }
}

}  // namespace
}  // namespace lockstep::equivalence

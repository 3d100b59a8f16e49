// What real ranks tell about their training, also across a kill and a resume, and that telling it
// changes nothing of it.
#include <algorithm>
#include <filesystem>
#include <map>

#include <gtest/gtest.h>
#include <signal.h>

#include "tests/support/event_reader.h"
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
    GangOptions gang{.runtime = LOCKSTEP_RUNTIME,
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

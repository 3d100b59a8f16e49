// What real ranks tell about where their time goes.
#include <gtest/gtest.h>

#include "tests/support/tiny_job.h"

namespace lockstep::equivalence {
namespace {

using nlohmann::json;
using support::Gang;
using support::GangOptions;
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

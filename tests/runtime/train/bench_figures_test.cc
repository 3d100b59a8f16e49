#include "runtime/train/bench_figures.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace lockstep::runtime {
namespace {

using testing::HasSubstr;
using Sizes = std::vector<int64_t>;

TEST(BenchFiguresTest, BandwidthsAreThoseOfNcclTests) {
  struct Case {
    BenchVerb verb;
    int64_t num_bytes;
    int world_size;
    double seconds;
    double algorithm, bus;
  };
  const std::vector<Case> table = {
      {BenchVerb::kAllReduce, 1000, 2, 0.5, 2000, 2000},
      {BenchVerb::kAllReduce, 1000, 4, 0.5, 2000, 3000},
      {BenchVerb::kAllReduce, 1000, 8, 0.5, 2000, 3500},
      {BenchVerb::kAllGather, 1000, 2, 0.5, 2000, 1000},
      {BenchVerb::kAllGather, 1000, 4, 0.25, 4000, 3000},
      {BenchVerb::kReduceScatter, 1000, 2, 0.5, 2000, 1000},
      {BenchVerb::kReduceScatter, 1000, 8, 0.5, 2000, 1750},
      {BenchVerb::kBroadcast, 1000, 2, 0.5, 2000, 2000},
      {BenchVerb::kBroadcast, 1000, 8, 0.5, 2000, 2000},
      {BenchVerb::kAllReduce, 1000, 1, 0.5, 2000, 0},  // nothing travels
      {BenchVerb::kAllGather, 1000, 1, 0.5, 2000, 0},
      {BenchVerb::kAllReduce, 1000, 2, 0, 0, 0},
  };
  for (const Case& c : table) {
    const Bandwidth found = bandwidth_of(c.verb, c.num_bytes, c.world_size, c.seconds);
    EXPECT_EQ(found.algorithm_bytes_per_second, c.algorithm) << to_string(c.verb) << c.world_size;
    EXPECT_EQ(found.bus_bytes_per_second, c.bus) << to_string(c.verb) << c.world_size;
  }
}

TEST(BenchFiguresTest, SizesGrowByTheFactorAndAreWholeFloatsPerRank) {
  EXPECT_EQ(bench_sizes({64, 1024, 4}, 2), (Sizes{64, 256, 1024}));
  EXPECT_EQ(bench_sizes({64, 1023, 4}, 2), (Sizes{64, 256}));
  EXPECT_EQ(bench_sizes({1, 16, 2}, 3), (Sizes{12, 24}));  // 1, 2, 4, 8 and 16
  EXPECT_EQ(bench_sizes({100, 100, 2}, 3), (Sizes{108}));
  const int64_t most = int64_t{4} << 30;
  EXPECT_EQ(bench_sizes({most, most, 1'000'000'000}, 1), (Sizes{most}));
}

TEST(BenchFiguresTest, ALineSaysEverythingInBothForms) {
  const BenchLine line = {BenchVerb::kAllReduce, 1 << 20, 0.0005, 3};
  const std::string text = render_bench_line(line, 4);
  for (const char* const part : {"all-reduce", "1048576", "500.00", "2.097", "3.146", " 3\n"}) {
    EXPECT_THAT(text, HasSubstr(part));
  }
  const Topology topology = {.backend = "gloo", .ranks_per_host = 1, .reason = "asked for"};
  EXPECT_THAT(render_bench_header(4, topology), HasSubstr("# 4 ranks, gloo (asked for)"));
  const nlohmann::json json = bench_json({line}, 4, topology);
  EXPECT_EQ(json["backend"], "gloo");
  EXPECT_EQ(json["ranks"], 4);
  const nlohmann::json& result = json["results"].at(0);
  EXPECT_EQ(result["verb"], "all-reduce");
  EXPECT_EQ(result["bytes"], 1 << 20);
  EXPECT_EQ(result["seconds"], 0.0005);
  EXPECT_EQ(result["algorithmBytesPerSecond"].get<double>() * 1.5, result["busBytesPerSecond"]);
  EXPECT_EQ(result["wrong"], 3);
}

}  // namespace
}  // namespace lockstep::runtime

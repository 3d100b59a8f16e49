// What `bench collectives` tells: sizes, bandwidths, and how they are written. Pure.
//
// Note [Algorithm and bus bandwidth]
// Of an operation on S bytes that takes t seconds on n ranks, the algorithm bandwidth is S / t.
// What a rank's links must carry differs from verb to verb; the bus bandwidth takes that out, so
// that one figure compares verbs, rank counts and the hardware's limit: S / t times 2 (n - 1) / n
// for an all-reduce, (n - 1) / n for an all-gather and a reduce-scatter, 1 for a broadcast. S is
// the whole buffer: what an all-gather ends with, what a reduce-scatter begins with. Source of the
// formulas: nccl-tests, doc/PERFORMANCE.md.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

#include "runtime/comm/collective.h"

namespace lockstep::runtime {

enum class BenchVerb { kAllReduce, kAllGather, kReduceScatter, kBroadcast };
inline constexpr std::array kBenchVerbs = {BenchVerb::kAllReduce, BenchVerb::kAllGather,
                                           BenchVerb::kReduceScatter, BenchVerb::kBroadcast};
std::string_view to_string(BenchVerb verb);

struct BenchSizes {
  int64_t min_bytes = 0;  // at least 1
  int64_t max_bytes = 0;
  int64_t step_factor = 2;  // at least 2
};
// min_bytes, times step_factor each, up to max_bytes; every one rounded up to a whole fp32 per
// rank, and told once.
std::vector<int64_t> bench_sizes(const BenchSizes& sizes, int world_size);

struct Bandwidth {
  double algorithm_bytes_per_second = 0;
  double bus_bytes_per_second = 0;
};
// Note [Algorithm and bus bandwidth]. All zero if `seconds` is not positive.
Bandwidth bandwidth_of(BenchVerb verb, int64_t num_bytes, int world_size, double seconds);

// One measurement.
struct BenchLine {
  BenchVerb verb = BenchVerb::kAllReduce;
  int64_t num_bytes = 0;
  double seconds = 0;     // of one operation, on the slowest rank
  int64_t num_wrong = 0;  // received values that are not what they must be, on all ranks
};

std::string render_bench_header(int world_size, const Topology& topology);
std::string render_bench_line(const BenchLine& line, int world_size);
nlohmann::json bench_json(const std::vector<BenchLine>& lines, int world_size,
                          const Topology& topology);

}  // namespace lockstep::runtime

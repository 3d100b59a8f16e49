#include "runtime/train/bench_figures.h"

#include <algorithm>
#include <cstdio>

namespace lockstep::runtime {
namespace {

// Bytes that a rank's links carry, per byte of the buffer.
double bus_factor(BenchVerb verb, int world_size) {
  const double n = world_size;
  switch (verb) {
    case BenchVerb::kAllReduce:
      return 2 * (n - 1) / n;
    case BenchVerb::kAllGather:
    case BenchVerb::kReduceScatter:
      return (n - 1) / n;
    case BenchVerb::kBroadcast:
      return 1;
  }
  return 0;
}

}  // namespace

std::string_view to_string(BenchVerb verb) {
  switch (verb) {
    case BenchVerb::kAllReduce:
      return "all-reduce";
    case BenchVerb::kAllGather:
      return "all-gather";
    case BenchVerb::kReduceScatter:
      return "reduce-scatter";
    case BenchVerb::kBroadcast:
      return "broadcast";
  }
  return "";
}

std::vector<int64_t> bench_sizes(const BenchSizes& sizes, int world_size) {
  const int64_t unit = static_cast<int64_t>(sizeof(float)) * world_size;
  std::vector<int64_t> result;
  for (int64_t wanted = sizes.min_bytes; wanted <= sizes.max_bytes;) {
    const int64_t num_bytes = (wanted + unit - 1) / unit * unit;
    if (result.empty() || result.back() != num_bytes) result.push_back(num_bytes);
    if (wanted > sizes.max_bytes / sizes.step_factor) break;
    wanted *= sizes.step_factor;
  }
  return result;
}

Bandwidth bandwidth_of(BenchVerb verb, int64_t num_bytes, int world_size, double seconds) {
  if (!(seconds > 0)) return {};
  const double algorithm = static_cast<double>(num_bytes) / seconds;
  return {.algorithm_bytes_per_second = algorithm,
          .bus_bytes_per_second = algorithm * bus_factor(verb, world_size)};
}

std::string render_bench_header(int world_size, const Topology& topology) {
  std::string text = "# " + std::to_string(world_size) + " ranks, " + topology.backend;
  if (!topology.reason.empty()) text += " (" + topology.reason + ")";
  text += "; fp32; time of one operation on the slowest rank; GB = 1e9 bytes\n";
  std::array<char, 128> columns{};
  std::snprintf(columns.data(), columns.size(), "%-14s %12s %12s %12s %12s %8s\n", "verb",
                "size (B)", "time (us)", "alg (GB/s)", "bus (GB/s)", "#wrong");
  return text + columns.data();
}

std::string render_bench_line(const BenchLine& line, int world_size) {
  const Bandwidth bandwidth = bandwidth_of(line.verb, line.num_bytes, world_size, line.seconds);
  std::array<char, 160> text{};
  std::snprintf(text.data(), text.size(), "%-14s %12lld %12.2f %12.3f %12.3f %8lld\n",
                std::string(to_string(line.verb)).c_str(), static_cast<long long>(line.num_bytes),
                line.seconds * 1e6, bandwidth.algorithm_bytes_per_second / 1e9,
                bandwidth.bus_bytes_per_second / 1e9, static_cast<long long>(line.num_wrong));
  return text.data();
}

nlohmann::json bench_json(const std::vector<BenchLine>& lines, int world_size,
                          const Topology& topology) {
  nlohmann::json results = nlohmann::json::array();
  for (const BenchLine& line : lines) {
    const Bandwidth bandwidth = bandwidth_of(line.verb, line.num_bytes, world_size, line.seconds);
    results.push_back({{"verb", to_string(line.verb)},
                       {"bytes", line.num_bytes},
                       {"seconds", line.seconds},
                       {"algorithmBytesPerSecond", bandwidth.algorithm_bytes_per_second},
                       {"busBytesPerSecond", bandwidth.bus_bytes_per_second},
                       {"wrong", line.num_wrong}});
  }
  return {{"ranks", world_size},
          {"backend", topology.backend},
          {"ranksPerHost", topology.ranks_per_host},
          {"reason", topology.reason},
          {"results", std::move(results)}};
}

}  // namespace lockstep::runtime

#include "runtime/train/bench_verb.h"

#include <cstdlib>
#include <iostream>
#include <memory>
#include <numeric>
#include <vector>

#include "runtime/common/quantity.h"
#include "runtime/train/collective_bench.h"
#include "runtime/train/disk_bench.h"
#include "runtime/train/gemm_bench.h"
#include "runtime/train/local_ranks.h"
#include "runtime/train/run_error.h"

namespace lockstep::runtime {
namespace {

using common::ExitCode;
using Backend = common::CommunicationConfig::Backend;

constexpr int64_t kMaxRanks = 64;
constexpr int64_t kMaxBytes = int64_t{4} << 30;
constexpr int64_t kMaxCount = 1'000'000'000;
constexpr int64_t kMaxGemmSize = 65536;  // sums of so many whole numbers are exact in fp32

void check_range(const char* option, int64_t value, int64_t least, int64_t most) {
  if (value >= least && value <= most) return;
  refuse(std::string(option) + " must be from " + std::to_string(least) + " to " +
         std::to_string(most) + ", found " + std::to_string(value));
}

int64_t size_of(const char* option, const std::string& text) {
  const std::optional<int64_t> size = common::quantity_bytes(text);
  if (!size) refuse(std::string(option) + ": \"" + text + "\" is no size", "e.g. 4096, 64Ki, 16Mi");
  check_range(option, *size, 1, kMaxBytes);
  return *size;
}

Backend backend_of(const std::string& name) {
  if (name == "auto") return Backend::kAuto;
  if (name == "shared-memory") return Backend::kSharedMemory;
  if (name == "gloo") return Backend::kGloo;
  if (name == "nccl") {
    refuse("--backend nccl is not supported by this version", "use auto, shared-memory or gloo");
  }
  refuse("--backend must be auto, shared-memory or gloo, found \"" + name + "\"");
}

BenchOptions options_of(const CollectivesArguments& arguments) {
  check_range("--ranks", arguments.num_ranks, 1, kMaxRanks);
  check_range("--step-factor", arguments.step_factor, 2, kMaxCount);
  check_range("--iterations", arguments.iterations, 1, kMaxCount);
  check_range("--warmup", arguments.warmup, 0, kMaxCount);
  check_range("--timeout-seconds", arguments.timeout_seconds, 1, 86400);
  const BenchSizes sizes = {.min_bytes = size_of("--min-bytes", arguments.min_bytes),
                            .max_bytes = size_of("--max-bytes", arguments.max_bytes),
                            .step_factor = arguments.step_factor};
  if (sizes.min_bytes > sizes.max_bytes) {
    refuse("--min-bytes " + arguments.min_bytes + " is more than --max-bytes " +
           arguments.max_bytes);
  }
  return {.sizes = sizes, .iterations = arguments.iterations, .warmup = arguments.warmup};
}

std::string variable(const char* name, const char* otherwise) {
  const char* const value = std::getenv(name);
  return value != nullptr && *value != '\0' ? value : otherwise;
}

void require_none_wrong(int64_t num_wrong, const char* what) {
  if (num_wrong == 0) return;
  throw RunError({ExitCode::kInternal, std::to_string(num_wrong) + " " + what + " are wrong",
                  "please report this with the machine's processor, memory, disk and network"});
}

// Rank 0 prints, all of them check.
void run_rank(Collective& collective, const BenchOptions& options, bool as_json) {
  const int world_size = collective.world_size();
  const bool prints = collective.rank() == 0;
  const bool prints_lines = prints && !as_json;
  if (prints_lines) {
    std::cout << render_bench_header(world_size, collective.topology()) << std::flush;
  }
  const std::vector<BenchLine> lines =
      bench_collectives(collective, options, [&](const BenchLine& line) {
        if (prints_lines) std::cout << render_bench_line(line, world_size) << std::flush;
      });
  if (prints && as_json) {
    std::cout << bench_json(lines, world_size, collective.topology()).dump(2) << "\n";
  }
  const int64_t num_wrong =
      std::accumulate(lines.begin(), lines.end(), int64_t{0},
                      [](int64_t sum, const BenchLine& line) { return sum + line.num_wrong; });
  require_none_wrong(num_wrong, "received values");
}

DType dtype_of(const std::string& name) {
  return name == "fp32" ? DType::kFp32 : name == "bf16" ? DType::kBf16 : DType::kFp16;
}

GemmBenchOptions options_of(const GemmArguments& arguments) {
  check_range("--tokens", arguments.num_tokens, 1, kMaxGemmSize);
  check_range("--iterations", arguments.iterations, 1, kMaxCount);
  GemmBenchOptions options = {.dtypes = {},
                              .sizes = arguments.sizes,
                              .num_tokens = arguments.num_tokens,
                              .iterations = arguments.iterations};
  for (const int64_t size : arguments.sizes) check_range("--sizes", size, 1, kMaxGemmSize);
  for (const std::string& name : arguments.dtypes) options.dtypes.push_back(dtype_of(name));
  return options;
}

}  // namespace

int bench_collectives_verb(const CollectivesArguments& arguments) {
  const BenchOptions options = options_of(arguments);
  return run_local_ranks(
      "bench",
      {.num_ranks = static_cast<int>(arguments.num_ranks),
       .backend = backend_of(arguments.backend),
       .timeout = std::chrono::seconds(arguments.timeout_seconds),
       .shm_folder = variable("LOCKSTEP_SHM_DIR", "/dev/shm"),
       .network_interface = variable("GLOO_SOCKET_IFNAME", "")},
      [&](Collective& collective) { run_rank(collective, options, arguments.json); });
}

int bench_gemm_verb(const GemmArguments& arguments) {
  const GemmBenchOptions options = options_of(arguments);
  if (!arguments.json) std::cout << render_gemm_header(options) << std::flush;
  int64_t num_wrong = 0;
  const std::vector<GemmLine> lines = bench_gemm(options, [&](const GemmLine& line) {
    num_wrong += line.num_wrong;
    if (!arguments.json) std::cout << render_gemm_line(line, options.num_tokens) << std::flush;
  });
  if (arguments.json) std::cout << gemm_json(lines, options).dump(2) << "\n";
  require_none_wrong(num_wrong, "values of products");
  return 0;
}

int bench_disk_verb(const DiskArguments& arguments) {
  const int64_t wanted = size_of("--size", arguments.size);
  const int64_t num_blocks = (wanted + kDiskBlockBytes - 1) / kDiskBlockBytes;
  const std::unique_ptr<Disk> disk = real_disk();
  const DiskFigures figures = value_or_raise(
      bench_disk(*disk, {.folder = arguments.folder, .num_bytes = num_blocks * kDiskBlockBytes}),
      ExitCode::kOutputUnwritable);
  std::cout << (arguments.json ? disk_json(figures).dump(2) + "\n" : render_disk(figures));
  require_none_wrong(figures.num_wrong, "bytes that were read back");
  return 0;
}

}  // namespace lockstep::runtime

// The verbs `bench collectives`, `bench gemm` and `bench disk`: they print their measurements on
// standard output and return the exit code.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace lockstep::runtime {

// As on the command line.
struct CollectivesArguments {
  int64_t num_ranks = 0;
  std::string backend = "auto";
  std::string min_bytes = "1Ki";
  std::string max_bytes = "16Mi";
  int64_t step_factor = 4;
  int64_t iterations = 20;
  int64_t warmup = 5;
  int64_t timeout_seconds = 60;
  bool json = false;
};

struct GemmArguments {
  std::vector<std::string> dtypes = {"fp32", "bf16"};
  std::vector<int64_t> sizes = {256, 1024, 2048};
  int64_t num_tokens = 512;
  int64_t iterations = 10;
  bool json = false;
};

struct DiskArguments {
  std::string folder;
  std::string size = "256Mi";
  bool json = false;
};

// Block. Precondition of the first: as run_local_ranks().
// Throw RunError: kInvalidConfig naming the option that cannot be honoured, kInternal if a value
// was wrong, kOutputUnwritable if the disk refuses.
int bench_collectives_verb(const CollectivesArguments& arguments);
int bench_gemm_verb(const GemmArguments& arguments);
int bench_disk_verb(const DiskArguments& arguments);

}  // namespace lockstep::runtime

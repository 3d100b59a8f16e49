// The verb `bench collectives`.
#pragma once

#include <cstdint>
#include <string>

namespace lockstep::runtime {

// As on the command line.
struct BenchArguments {
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

// Runs ranks of this machine and prints their measurements on standard output. Returns the exit
// code; kInternal if a value was wrong. Blocks. Precondition: as run_local_ranks().
// Throws RunError(kInvalidConfig) naming the option that cannot be honoured.
int bench_verb(const BenchArguments& arguments);

}  // namespace lockstep::runtime

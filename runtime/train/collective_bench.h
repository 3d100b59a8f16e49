// Measures the verbs that training is made of, and checks every value that they bring.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "runtime/comm/collective.h"
#include "runtime/train/bench_figures.h"

namespace lockstep::runtime {

struct BenchOptions {
  BenchSizes sizes{};
  int64_t iterations = 20;  // timed, one after the other
  int64_t warmup = 5;       // not timed
};

// Every verb at every size. An all-reduce and a reduce-scatter are what training does: slices to
// their owners, a sum in tree order there (and an all-gather); a broadcast scatters rank 0's buffer
// and gathers it. After the timed operations the results are overwritten, made once more and
// compared with what the ranks' inputs come to.
// Every rank must call it with the same options; `on_line` is told each line, on every rank.
// Blocks. Throws as Pending::wait().
std::vector<BenchLine> bench_collectives(Collective& collective, const BenchOptions& options,
                                         const std::function<void(const BenchLine&)>& on_line);

// What rank `rank` puts at `index` of its buffer: whole numbers that fp32 adds without rounding.
float bench_value(int rank, int64_t index);
// How many of a rank's results are not what they must be.
//   result: of all-reduce, all-gather and broadcast the whole buffer, of reduce-scatter the slice
//   of `rank`; fp32.
int64_t count_wrong(BenchVerb verb, int rank, int world_size, std::span<const float> result);

}  // namespace lockstep::runtime

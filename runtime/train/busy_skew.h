// How unevenly the ranks are loaded.
#pragma once

#include <span>

namespace lockstep::runtime {

struct BusySkew {
  double min = 0;
  double median = 0;  // the mean of the two in the middle if the count is even
  double max = 0;
  int slowest_rank = 0;  // the first of those with the largest
};

// busy_seconds: by rank, at least one.
BusySkew busy_skew(std::span<const double> busy_seconds);

}  // namespace lockstep::runtime

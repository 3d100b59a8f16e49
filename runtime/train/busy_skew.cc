#include "runtime/train/busy_skew.h"

#include <algorithm>
#include <cstddef>
#include <vector>

namespace lockstep::runtime {

BusySkew busy_skew(std::span<const double> busy_seconds) {
  std::vector<double> sorted(busy_seconds.begin(), busy_seconds.end());
  std::sort(sorted.begin(), sorted.end());
  const std::size_t middle = sorted.size() / 2;
  const double median =
      sorted.size() % 2 == 1 ? sorted[middle] : (sorted[middle - 1] + sorted[middle]) / 2;
  const auto slowest = std::max_element(busy_seconds.begin(), busy_seconds.end());
  return {.min = sorted.front(),
          .median = median,
          .max = sorted.back(),
          .slowest_rank = static_cast<int>(slowest - busy_seconds.begin())};
}

}  // namespace lockstep::runtime

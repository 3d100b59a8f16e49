#include "runtime/hub/retry.h"

#include <algorithm>

namespace lockstep::runtime {
namespace {

constexpr int kMaxFruitless = 5;
constexpr std::chrono::seconds kLongestWait{600};

}  // namespace

bool is_passing(const TryEnd& end) {
  switch (end.status) {
    case 0:
      return end.may_pass;
    case 408:
    case 425:
    case 429:
    case 500:
    case 502:
    case 503:
    case 504:
      return true;
    default:
      return false;
  }
}

std::optional<std::chrono::seconds> pause_before_next(int fruitless, const TryEnd& end) {
  if (!is_passing(end) || fruitless >= kMaxFruitless) return std::nullopt;
  const std::chrono::seconds own(1 << std::max(fruitless - 1, 0));
  if (!end.retry_after) return own;
  if (*end.retry_after > kLongestWait) return std::nullopt;
  return std::max(own, *end.retry_after);
}

}  // namespace lockstep::runtime

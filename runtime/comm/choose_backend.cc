#include "runtime/comm/choose_backend.h"

#include <map>

namespace lockstep::runtime {

std::string choose_backend(common::CommunicationConfig::Backend wanted,
                           std::span<const std::string> joined, const std::string& offer_failure) {
  using Backend = common::CommunicationConfig::Backend;
  if (wanted == Backend::kGloo) return "gloo: asked for";
  std::string obstacle = offer_failure;
  for (size_t rank = 0; rank < joined.size() && obstacle.empty(); ++rank) {
    if (joined[rank] != kJoinedSegment) {
      obstacle = "rank " + std::to_string(rank) + ": " + joined[rank];
    }
  }
  if (obstacle.empty()) return "shared-memory";
  return (wanted == Backend::kAuto ? "gloo: " : "refused: ") + obstacle;
}

HostGrouping group_hosts(std::span<const int> leaders) {
  std::map<int, int> sizes;  // by leader
  for (const int leader : leaders) ++sizes[leader];
  const int per_host = sizes.begin()->second;
  for (size_t rank = 0; rank < leaders.size(); ++rank) {
    const int leader = leaders[rank];
    const bool is_alike = leader >= 0 && leader <= static_cast<int>(rank) &&
                          leaders[static_cast<size_t>(leader)] == leader;
    if (!is_alike)
      return {.reason = "rank " + std::to_string(rank) +
                        " sees other files in shared "
                        "memory than the ranks beside it"};
  }
  if (sizes.size() == leaders.size()) return {.reason = "no two ranks share memory"};
  std::string counts;
  for (const auto& [leader, size] : sizes) {
    counts.append(counts.empty() ? "" : " and ").append(std::to_string(size));
  }
  for (const auto& [leader, size] : sizes) {
    if (size != per_host) {
      return {.reason = "hosts hold " + counts + " ranks: two levels need as many on each"};
    }
  }
  for (size_t rank = 0; rank < leaders.size(); ++rank) {
    if (leaders[rank] == static_cast<int>(rank) / per_host * per_host) continue;
    return {.reason = "rank " + std::to_string(rank) +
                      " is not on the host of the ranks before it: two levels need consecutive "
                      "ranks"};
  }
  if (sizes.size() == 1) return {.ranks_per_host = per_host, .reason = "all ranks share memory"};
  return {.ranks_per_host = per_host,
          .reason = std::to_string(sizes.size()) + " hosts of " + std::to_string(per_host) +
                    " ranks that share memory"};
}

}  // namespace lockstep::runtime

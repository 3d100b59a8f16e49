#include "runtime/comm/choose_backend.h"

namespace lockstep::runtime {

std::string choose_backend(common::CommunicationConfig::Backend wanted,
                           std::span<const std::string> joined, const std::string& offer_failure) {
  using Backend = common::CommunicationConfig::Backend;
  if (wanted == Backend::kGloo) return "gloo";
  std::string obstacle = offer_failure;
  for (size_t rank = 0; rank < joined.size() && obstacle.empty(); ++rank) {
    if (joined[rank] != kJoinedSegment) {
      obstacle = "rank " + std::to_string(rank) + ": " + joined[rank];
    }
  }
  if (obstacle.empty()) return "shared-memory";
  return wanted == Backend::kAuto ? "gloo" : "refused: " + obstacle;
}

}  // namespace lockstep::runtime

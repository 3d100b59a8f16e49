// Which backend serves a meeting of ranks: pure, so that every case has a test.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "runtime/common/train_config.h"

namespace lockstep::runtime {

// What a rank reports when it could open the offered segment; anything else is the reason why not.
inline constexpr std::string_view kJoinedSegment = "yes";

// "shared-memory", "gloo: REASON", or "refused: REASON" if shared memory is forced and cannot
// serve. "gloo" is for ranks that may still share memory in groups.
//   joined: what every rank reports, in rank order.
//   offer_failure: why no segment could be made; empty if one was.
std::string choose_backend(common::CommunicationConfig::Backend wanted,
                           std::span<const std::string> joined, const std::string& offer_failure);

// How the ranks lie on hosts.
struct HostGrouping {
  int ranks_per_host = 1;  // ranks [h L, (h+1) L) share memory; 1: grouping them is not possible
  std::string reason;      // what was found, or why not, for people
};

// Groups ranks that share memory. Two levels need several hosts with the same number of consecutive
// ranks, two or more, on each; everything else is no grouping.
//   leaders: by rank, the lowest rank whose file of shared memory it can open, itself included.
HostGrouping group_hosts(std::span<const int> leaders);

}  // namespace lockstep::runtime

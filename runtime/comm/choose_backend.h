// Which backend serves a meeting of ranks: pure, so that every case has a test.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "runtime/common/train_config.h"

namespace lockstep::runtime {

// What a rank reports when it could open the offered segment; anything else is the reason why not.
inline constexpr std::string_view kJoinedSegment = "yes";

// "shared-memory", "gloo", or "refused: REASON" if shared memory is forced and cannot serve.
//   joined: what every rank reports, in rank order.
//   offer_failure: why no segment could be made; empty if one was.
std::string choose_backend(common::CommunicationConfig::Backend wanted,
                           std::span<const std::string> joined, const std::string& offer_failure);

}  // namespace lockstep::runtime

// What a training step spends its time on.
#pragma once

#include <array>
#include <cstddef>
#include <string_view>

namespace lockstep::common {

enum class StepPart {
  kData,           // waiting for the next micro-batch
  kForward,        // blocks' forward
  kBackward,       // blocks' backward, the last one's forward, and local sums of gradients
  kCommunication,  // blocked on a collective
  kOptimizer,      // losses, norm and update
};
inline constexpr std::size_t kNumStepParts = 5;

// In the order of the enumerators; they name fields of metrics.jsonl and /status, and labels.
inline constexpr std::array<std::string_view, kNumStepParts> kStepPartNames = {
    "data", "forward", "backward", "communication", "optimizer"};

// Seconds by part.
using StepParts = std::array<double, kNumStepParts>;

inline constexpr double& seconds_in(StepParts& parts, StepPart part) {
  return parts[static_cast<std::size_t>(part)];
}
inline constexpr std::string_view to_string(StepPart part) {
  return kStepPartNames[static_cast<std::size_t>(part)];
}

}  // namespace lockstep::common

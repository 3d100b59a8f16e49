#include "runtime/train/step_clock.h"

#include <numeric>

namespace lockstep::runtime {

using common::StepPart;
using common::StepParts;

void StepClock::begin_step() {
  enter(StepPart::kData);
  seconds_.fill(0);
}

void StepClock::enter(StepPart part) {
  charge();
  part_ = part;
  charged_ = part;
}

StepParts StepClock::end_step() {
  charge();
  return seconds_;
}

double StepClock::busy_seconds() {
  charge();
  return std::accumulate(seconds_.begin(), seconds_.end(), 0.0) -
         seconds_in(seconds_, StepPart::kCommunication);
}

void StepClock::wait_begins(std::string_view /*what*/) {
  charge();
  charged_ = StepPart::kCommunication;
}

void StepClock::wait_ended() {
  charge();
  charged_ = part_;
}

void StepClock::carried_out(const CollectiveSpan& /*span*/) {}

StepClock::Clock::time_point StepClock::charge() {
  const Clock::time_point now = Clock::now();
  seconds_in(seconds_, charged_) += std::chrono::duration<double>(now - mark_).count();
  mark_ = now;
  return now;
}

}  // namespace lockstep::runtime

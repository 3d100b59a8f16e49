// Where a rank's time goes: every moment of a step of its training thread belongs to one part.
#pragma once

#include <chrono>
#include <string_view>

#include "runtime/comm/collective_observer.h"
#include "runtime/common/step_parts.h"

namespace lockstep::runtime {

// Used by the training thread alone, but for carried_out(). Costs a reading of the clock per block
// and per wait that blocks, and never allocates: it is always on.
class StepClock final : public CollectiveObserver {
 public:
  // A step begins, in kData. What came since the last one is of no step.
  void begin_step();
  // What follows belongs to `part`. While something waits for a collective its time belongs to
  // kCommunication.
  void enter(common::StepPart part);
  // Seconds by part since begin_step(); their sum is the time of the step.
  common::StepParts end_step();

  // Seconds since begin_step() without those of kCommunication: what this rank spent working,
  // however long it waited for others.
  double busy_seconds();

  void wait_begins(std::string_view what) override;
  void wait_ended() override;
  void carried_out(const CollectiveSpan& span) override;

 private:
  using Clock = std::chrono::steady_clock;

  Clock::time_point charge();  // the time since mark_ to charged_; returns now

  common::StepPart part_ = common::StepPart::kData;
  common::StepPart charged_ = common::StepPart::kData;  // part_, or kCommunication during a wait
  Clock::time_point mark_ = Clock::now();
  common::StepParts seconds_{};
};

}  // namespace lockstep::runtime

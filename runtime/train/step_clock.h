// Where a rank's time goes: every moment of a step of its training thread belongs to one part.
#pragma once

#include <chrono>
#include <cstdint>
#include <string_view>

#include "runtime/comm/collective_observer.h"
#include "runtime/common/step_parts.h"
#include "runtime/train/trace.h"

namespace lockstep::runtime {

// Used by the training thread alone, but for carried_out(). Costs a reading of the clock per block
// and per wait that blocks, and does not allocate: it is always on, the trace only when asked for.
class StepClock final : public CollectiveObserver {
 public:
  // Step `step` begins, in kData. What came since the last one is of no step.
  void begin_step(int64_t step);
  // What follows belongs to `part`. While something waits for a collective its time belongs to
  // kCommunication.
  //   what: names it in a trace (a block); must stay valid until the next call.
  void enter(common::StepPart part, std::string_view what);
  // Seconds by part since begin_step(); their sum is the time of the step.
  common::StepParts end_step();

  // Seconds since begin_step() without those of kCommunication: what this rank spent working,
  // however long it waited for others.
  double busy_seconds();

  // While it is on it gets steps, parts, waits and collectives.
  TraceRecorder& trace() { return trace_; }

  void wait_begins(std::string_view what) override;
  void wait_ended() override;
  void carried_out(const CollectiveSpan& span) override;

 private:
  using Clock = std::chrono::steady_clock;

  Clock::time_point charge();  // the time since mark_ to charged_; returns now
  void trace_part(Clock::time_point end);

  common::StepPart part_ = common::StepPart::kData;
  common::StepPart charged_ = common::StepPart::kData;  // part_, or kCommunication during a wait
  Clock::time_point mark_ = Clock::now();
  common::StepParts seconds_{};

  TraceRecorder trace_;
  int64_t step_ = 0;
  Clock::time_point step_begin_;
  std::string_view what_;  // of the part; empty between steps
  Clock::time_point part_begin_;
  std::string_view awaited_;
  Clock::time_point wait_begin_;
};

}  // namespace lockstep::runtime

#include "runtime/train/step_clock.h"

#include <numeric>

namespace lockstep::runtime {

using common::StepPart;
using common::StepParts;

void StepClock::begin_step(int64_t step) {
  what_ = {};
  enter(StepPart::kData, {});
  step_ = step;
  step_begin_ = mark_;
  seconds_.fill(0);
}

void StepClock::enter(StepPart part, std::string_view what) {
  const Clock::time_point now = charge();
  trace_part(now);
  part_ = part;
  charged_ = part;
  what_ = what;
  part_begin_ = now;
}

StepParts StepClock::end_step() {
  const Clock::time_point now = charge();
  trace_part(now);
  what_ = {};
  trace_.add({.kind = TraceKind::kStep, .number = step_, .begin = step_begin_, .end = now});
  return seconds_;
}

double StepClock::busy_seconds() {
  charge();
  return std::accumulate(seconds_.begin(), seconds_.end(), 0.0) -
         seconds_in(seconds_, StepPart::kCommunication);
}

void StepClock::wait_begins(std::string_view what) {
  wait_begin_ = charge();
  charged_ = StepPart::kCommunication;
  awaited_ = what;
}

void StepClock::wait_ended() {
  const Clock::time_point now = charge();
  charged_ = part_;
  if (!trace_.is_on()) return;
  trace_.add(
      {.kind = TraceKind::kWait, .what = span_name(awaited_), .begin = wait_begin_, .end = now});
}

void StepClock::carried_out(const CollectiveSpan& span) {
  if (!trace_.is_on()) return;
  trace_.add({.kind = TraceKind::kCollective,
              .number = span.queue,
              .what = span_name(span.what),
              .begin = span.began,
              .end = span.ended,
              .queued_seconds = std::chrono::duration<double>(span.began - span.issued).count()});
}

StepClock::Clock::time_point StepClock::charge() {
  const Clock::time_point now = Clock::now();
  seconds_in(seconds_, charged_) += std::chrono::duration<double>(now - mark_).count();
  mark_ = now;
  return now;
}

void StepClock::trace_part(Clock::time_point end) {
  if (what_.empty() || !trace_.is_on()) return;
  trace_.add({.kind = TraceKind::kPart,
              .part = part_,
              .what = span_name(what_),
              .begin = part_begin_,
              .end = end});
}

}  // namespace lockstep::runtime

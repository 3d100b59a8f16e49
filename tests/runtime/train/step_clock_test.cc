#include "runtime/train/step_clock.h"

#include <cstdlib>
#include <new>
#include <numeric>
#include <thread>

#include <gtest/gtest.h>

namespace {

// Allocations of this thread, by the operator below.
thread_local int64_t num_allocations = 0;

}  // namespace

void* operator new(std::size_t size) {
  ++num_allocations;
  if (void* const memory = std::malloc(size == 0 ? 1 : size)) return memory;
  throw std::bad_alloc();
}
void operator delete(void* memory) noexcept {
  std::free(memory);
}
void operator delete(void* memory, std::size_t /*size*/) noexcept {
  std::free(memory);
}

namespace lockstep::runtime {
namespace {

using common::StepPart;
using common::StepParts;
using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

void pass_time() {
  std::this_thread::sleep_for(milliseconds(2));
}

void wait_for(StepClock& clock, const char* what) {
  clock.wait_begins(what);
  pass_time();
  clock.wait_ended();
}

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

TEST(StepClockTest, EveryMomentOfAStepBelongsToOnePart) {
  StepClock clock;
  pass_time();  // of no step
  const Clock::time_point begin = Clock::now();
  clock.begin_step();
  for (const StepPart part : {StepPart::kData, StepPart::kForward, StepPart::kOptimizer}) {
    clock.enter(part);
    pass_time();
  }
  StepParts parts = clock.end_step();
  const double elapsed = seconds_since(begin);
  for (const StepPart part : {StepPart::kData, StepPart::kForward, StepPart::kOptimizer}) {
    EXPECT_GE(seconds_in(parts, part), 0.002) << to_string(part);
  }
  EXPECT_EQ(seconds_in(parts, StepPart::kBackward), 0);
  EXPECT_EQ(seconds_in(parts, StepPart::kCommunication), 0);
  EXPECT_LE(std::accumulate(parts.begin(), parts.end(), 0.0), elapsed);
  clock.begin_step();
  parts = clock.end_step();
  EXPECT_EQ(seconds_in(parts, StepPart::kOptimizer), 0) << "sums begin anew";
}

TEST(StepClockTest, WaitsAreCommunicationAndNotWork) {
  StepClock clock;
  clock.begin_step();
  clock.enter(StepPart::kForward);
  const Clock::time_point begin = Clock::now();
  wait_for(clock, "weights of unit 1");
  const double after_the_wait = clock.busy_seconds();
  EXPECT_LE(after_the_wait, seconds_since(begin) + 0.002) << "without the wait";
  pass_time();
  EXPECT_GE(clock.busy_seconds(), after_the_wait + 0.002) << "back in forward";
  StepParts parts = clock.end_step();
  EXPECT_GE(seconds_in(parts, StepPart::kCommunication), 0.002);
  EXPECT_GE(seconds_in(parts, StepPart::kForward), 0.002);
}

TEST(StepClockTest, AWaitBetweenStepsIsOfNone) {
  StepClock clock;
  clock.begin_step();
  clock.end_step();
  wait_for(clock, "checkpoint");
  clock.begin_step();
  StepParts parts = clock.end_step();
  EXPECT_EQ(seconds_in(parts, StepPart::kCommunication), 0);
}

TEST(StepClockTest, NeverAllocates) {
  StepClock clock;
  const int64_t before = num_allocations;
  clock.begin_step();
  for (int i = 0; i < 100; ++i) {
    clock.enter(StepPart::kForward);
    clock.wait_begins("the weights of a unit whose name is longer than a short string");
    clock.wait_ended();
    const auto now = Clock::now();
    clock.carried_out({.what = "weights", .issued = now, .began = now, .ended = now});
  }
  clock.busy_seconds();
  clock.end_step();
  EXPECT_EQ(num_allocations, before);
  const auto counted = std::make_unique<int>(0);
  EXPECT_EQ(num_allocations, before + 1) << "the count counts";
}

}  // namespace
}  // namespace lockstep::runtime

#include "runtime/train/step_clock.h"

#include <algorithm>
#include <cstdlib>
#include <new>
#include <numeric>
#include <thread>
#include <vector>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace {

// Allocations of this thread, by the operator below.
thread_local int64_t num_allocations = 0;

}  // namespace

void* operator new(std::size_t size, const std::nothrow_t& /*tag*/) noexcept {
  ++num_allocations;
  return std::malloc(size == 0 ? 1 : size);
}
void* operator new(std::size_t size) {
  if (void* const memory = operator new(size, std::nothrow)) return memory;
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
  clock.begin_step(1);
  for (const StepPart part : {StepPart::kData, StepPart::kForward, StepPart::kOptimizer}) {
    clock.enter(part, "x");
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
  clock.begin_step(1);
  parts = clock.end_step();
  EXPECT_EQ(seconds_in(parts, StepPart::kOptimizer), 0) << "sums begin anew";
}

TEST(StepClockTest, WaitsAreCommunicationAndNotWork) {
  StepClock clock;
  clock.begin_step(1);
  clock.enter(StepPart::kForward, "layer.0");
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
  clock.begin_step(1);
  clock.end_step();
  wait_for(clock, "checkpoint");
  clock.begin_step(1);
  StepParts parts = clock.end_step();
  EXPECT_EQ(seconds_in(parts, StepPart::kCommunication), 0);
}

TEST(StepClockTest, NeverAllocates) {
  StepClock clock;
  const int64_t before = num_allocations;
  clock.begin_step(1);
  for (int i = 0; i < 100; ++i) {
    clock.enter(StepPart::kForward, "layer.0");
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

// Names of the spans of one thread, in the order in which they begin, outer ones first.
std::vector<std::string> names_of(const nlohmann::json& trace, int thread) {
  std::vector<nlohmann::json> spans;
  for (const nlohmann::json& event : trace.at("traceEvents")) {
    if (event.at("ph") == "X" && event.at("tid") == thread) spans.push_back(event);
  }
  std::stable_sort(spans.begin(), spans.end(), [](const auto& a, const auto& b) {
    const auto begin = [](const auto& span) { return span.at("ts").template get<double>(); };
    const auto length = [](const auto& span) { return span.at("dur").template get<double>(); };
    return begin(a) != begin(b) ? begin(a) < begin(b) : length(a) > length(b);
  });
  std::vector<std::string> names;
  names.reserve(spans.size());
  for (const nlohmann::json& span : spans) names.push_back(span.at("name"));
  return names;
}

TEST(StepClockTest, ATraceHasStepsPartsWaitsAndCollectives) {
  StepClock clock;
  clock.begin_step(11);
  clock.enter(StepPart::kForward, "before the trace");
  clock.end_step();
  const Clock::time_point origin = Clock::now();
  clock.trace().start(100);
  clock.begin_step(12);
  pass_time();
  clock.enter(StepPart::kForward, "layer.0");
  wait_for(clock, "weights of unit 1");
  clock.enter(StepPart::kBackward, "layer.0");
  pass_time();
  clock.end_step();
  const auto now = Clock::now();
  clock.carried_out(
      {.what = "all \"of\" it", .queue = 2, .issued = now, .began = now, .ended = now});
  const std::vector<TraceSpan> spans = clock.trace().stop();
  clock.begin_step(13);
  clock.end_step();
  EXPECT_TRUE(clock.trace().stop().empty()) << "nothing is kept after the end";

  const std::vector<std::string> events = {encode_trace_events(7, spans, origin)};
  const auto trace = nlohmann::json::parse(encode_trace(events));
  EXPECT_EQ(names_of(trace, 0),
            (std::vector<std::string>{"step 12", "forward layer.0", "wait: weights of unit 1",
                                      "backward layer.0"}));
  EXPECT_EQ(names_of(trace, 3), std::vector<std::string>{"all \"of\" it"});
  const nlohmann::json& named = trace.at("traceEvents");
  EXPECT_EQ(named[0].at("args").at("name"), "rank 7");
  EXPECT_EQ(named[1].at("args").at("name"), "training");
  EXPECT_EQ(named[2].at("args").at("name"), "collectives of group 2");
  EXPECT_EQ(named[0].at("pid"), 7);
}

TEST(StepClockTest, ATraceDoesNotAllocateWhileItHasRoom) {
  StepClock clock;
  clock.trace().start(10);
  const int64_t before = num_allocations;
  clock.begin_step(1);
  clock.enter(StepPart::kForward, "a layer whose name is longer than a short string");
  clock.wait_begins("weights");
  clock.wait_ended();
  clock.end_step();
  EXPECT_EQ(num_allocations, before);
  EXPECT_EQ(clock.trace().stop().size(), 3U);
}

}  // namespace
}  // namespace lockstep::runtime

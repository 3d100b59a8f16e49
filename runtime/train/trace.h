// Spans of a rank's work, and how they look in Chrome's trace format (chrome://tracing, Perfetto).
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/common/step_parts.h"

namespace lockstep::runtime {

enum class TraceKind { kStep, kPart, kWait, kCollective };

struct TraceSpan {
  using Clock = std::chrono::steady_clock;
  TraceKind kind = TraceKind::kPart;
  common::StepPart part = common::StepPart::kData;  // of a kPart
  int64_t number = 0;           // the step of a kStep, the queue of a kCollective
  std::array<char, 64> what{};  // ends with 0; block or collective
  Clock::time_point begin;
  Clock::time_point end;
  double queued_seconds = 0;  // of a kCollective: from its issue to `begin`
};

// Cut to fit TraceSpan::what.
std::array<char, 64> span_name(std::string_view what);

// Collects spans between start() and stop(). Safe from any thread; does not allocate until it has
// as many as start() made room for.
class TraceRecorder {
 public:
  void start(std::size_t room);
  bool is_on() const { return is_on_.load(std::memory_order_relaxed); }
  void add(const TraceSpan& span);  // nothing unless is_on()
  std::vector<TraceSpan> stop();

 private:
  std::atomic<bool> is_on_ = false;
  std::mutex mutex_;
  std::vector<TraceSpan> spans_;  // guarded by mutex_
};

// The events of one rank, joined by ",\n": names of process and threads, then a complete event
// ("X") per span, whose times count from `origin`.
//   Source: the document "Trace Event Format" of the Chromium project.
std::string encode_trace_events(int rank, std::span<const TraceSpan> spans,
                                TraceSpan::Clock::time_point origin);
// A whole file.
std::string encode_trace(std::span<const std::string> events_by_rank);

}  // namespace lockstep::runtime

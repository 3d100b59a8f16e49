#include "runtime/train/trace.h"

#include <algorithm>
#include <cstdio>
#include <set>
#include <utility>

#include <nlohmann/json.hpp>

namespace lockstep::runtime {
namespace {

constexpr int kTrainingThread = 0;

int thread_of(const TraceSpan& span) {
  return span.kind == TraceKind::kCollective ? 1 + static_cast<int>(span.number) : kTrainingThread;
}

std::string thread_name(int thread) {
  if (thread == kTrainingThread) return "training";
  return thread == 1 ? "collectives" : "collectives of group " + std::to_string(thread - 1);
}

std::string_view category_of(const TraceSpan& span) {
  switch (span.kind) {
    case TraceKind::kStep:
      return "step";
    case TraceKind::kWait:
      return "wait";
    case TraceKind::kCollective:
      return "collective";
    case TraceKind::kPart:
      break;
  }
  return to_string(span.part);
}

std::string name_of(const TraceSpan& span) {
  switch (span.kind) {
    case TraceKind::kStep:
      return "step " + std::to_string(span.number);
    case TraceKind::kWait:
      return std::string("wait: ").append(span.what.data());
    case TraceKind::kCollective:
      return span.what.data();
    case TraceKind::kPart:
      break;
  }
  return std::string(to_string(span.part)).append(" ").append(span.what.data());
}

std::string json_text(std::string_view text) {
  return nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

// With all nanoseconds.
std::string microseconds(std::chrono::nanoseconds time) {
  std::array<char, 40> text{};
  const int size =
      std::snprintf(text.data(), text.size(), "%.3f", static_cast<double>(time.count()) / 1000);
  return std::string(text.data(), static_cast<std::size_t>(size));
}

std::string begin_event(std::string_view phase, int rank, int thread) {
  return std::string("{\"ph\":\"")
      .append(phase)
      .append("\",\"pid\":")
      .append(std::to_string(rank))
      .append(",\"tid\":")
      .append(std::to_string(thread));
}

std::string name_event(std::string_view kind, int rank, int thread, std::string_view name) {
  return begin_event("M", rank, thread)
      .append(",\"name\":")
      .append(json_text(kind))
      .append(",\"args\":{\"name\":")
      .append(json_text(name))
      .append("}}");
}

std::string span_event(int rank, const TraceSpan& span, TraceSpan::Clock::time_point origin) {
  std::string text = begin_event("X", rank, thread_of(span));
  text.append(",\"name\":").append(json_text(name_of(span)));
  text.append(",\"cat\":").append(json_text(category_of(span)));
  text.append(",\"ts\":").append(microseconds(span.begin - origin));
  text.append(",\"dur\":").append(microseconds(span.end - span.begin));
  if (span.kind == TraceKind::kCollective) {
    text.append(",\"args\":{\"queued_seconds\":");
    text.append(nlohmann::json(span.queued_seconds).dump()).append("}");
  }
  return text.append("}");
}

}  // namespace

std::array<char, 64> span_name(std::string_view what) {
  std::array<char, 64> name{};
  std::copy_n(what.data(), std::min(what.size(), name.size() - 1), name.data());
  return name;
}

void TraceRecorder::start(std::size_t room) {
  const std::lock_guard lock(mutex_);
  spans_.reserve(room);
  is_on_ = true;
}

void TraceRecorder::add(const TraceSpan& span) {
  if (!is_on()) return;
  const std::lock_guard lock(mutex_);
  spans_.push_back(span);
}

std::vector<TraceSpan> TraceRecorder::stop() {
  const std::lock_guard lock(mutex_);
  is_on_ = false;
  return std::exchange(spans_, {});
}

std::string encode_trace_events(int rank, std::span<const TraceSpan> spans,
                                TraceSpan::Clock::time_point origin) {
  std::string text =
      name_event("process_name", rank, kTrainingThread, "rank " + std::to_string(rank));
  std::set<int> threads = {kTrainingThread};
  for (const TraceSpan& span : spans) threads.insert(thread_of(span));
  for (const int thread : threads) {
    text.append(",\n").append(name_event("thread_name", rank, thread, thread_name(thread)));
  }
  for (const TraceSpan& span : spans) text.append(",\n").append(span_event(rank, span, origin));
  return text;
}

std::string encode_trace(std::span<const std::string> events_by_rank) {
  std::string text = "{\"displayTimeUnit\":\"ms\",\"traceEvents\":[\n";
  for (std::size_t rank = 0; rank < events_by_rank.size(); ++rank) {
    text.append(rank == 0 ? "" : ",\n").append(events_by_rank[rank]);
  }
  return text.append("\n]}\n");
}

}  // namespace lockstep::runtime

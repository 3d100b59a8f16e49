#include "operator/controller/progress_poller.h"

#include <algorithm>

namespace lockstep::control {

namespace {

constexpr int kMaxDoublings = 4;  // of the interval, for a target that does not answer

}  // namespace

ProgressPoller::ProgressPoller(Options options, Fetch fetch, OnProgress on_progress)
    : options_(options), fetch_(std::move(fetch)), on_progress_(std::move(on_progress)) {
  for (int i = 0; i < options_.num_threads; ++i) {
    threads_.emplace_back([this](const std::stop_token& stop) { run(stop); });
  }
}

ProgressPoller::~ProgressPoller() {
  for (std::jthread& thread : threads_) thread.request_stop();  // all of them before the first join
}

void ProgressPoller::watch(const kube::ObjectKey& job, const ProgressTarget& target) {
  {
    const kube::MutexLock lock(mutex_);
    const auto [found, is_new] = entries_.try_emplace(job);
    if (!is_new && found->second.target == target) return;
    found->second = Entry{.target = target, .latest = {}, .due = Clock::now()};
  }
  changed_.notify_one();
}

void ProgressPoller::forget(const kube::ObjectKey& job) {
  const kube::MutexLock lock(mutex_);
  entries_.erase(job);
}

std::optional<common::JobProgress> ProgressPoller::latest(const kube::ObjectKey& job) const {
  const kube::MutexLock lock(mutex_);
  const auto found = entries_.find(job);
  return found == entries_.end() ? std::nullopt : found->second.latest;
}

void ProgressPoller::run(const std::stop_token& stop) {
  while (const std::optional<Asked> asked = take_due(stop)) poll(*asked);
}

std::optional<ProgressPoller::Asked> ProgressPoller::take_due(const std::stop_token& stop) {
  const kube::MutexLock lock(mutex_);
  while (!stop.stop_requested()) {
    auto next = entries_.end();
    for (auto it = entries_.begin(); it != entries_.end(); ++it) {
      if (it->second.in_flight) continue;
      if (next == entries_.end() || it->second.due < next->second.due) next = it;
    }
    if (next != entries_.end() && next->second.due <= Clock::now()) {
      next->second.in_flight = true;
      return Asked{next->first, next->second.target};
    }
    // The predicate is only "not yet": every wake-up looks at the entries again.
    bool first = true;
    const auto woken = [&first] { return !std::exchange(first, false); };
    if (next == entries_.end()) {
      changed_.wait(mutex_, stop, woken);
    } else {
      const Clock::time_point due = next->second.due;
      changed_.wait_until(mutex_, stop, due, woken);
    }
  }
  return std::nullopt;
}

void ProgressPoller::poll(const Asked& asked) {
  const auto& [job, target] = asked;
  common::Result<common::JobProgress> answer = fetch_(target.host, target.port);
  // A rank of another attempt, or of another job that took over the address, tells us nothing.
  if (answer && (answer->attempt != target.attempt || answer->job != job.name)) {
    answer = common::Error{common::ErrorCode::kNotFound, "somebody else answers", ""};
  }
  if (settle(asked, answer)) on_progress_(job);
}

bool ProgressPoller::settle(const Asked& asked, const common::Result<common::JobProgress>& answer) {
  const kube::MutexLock lock(mutex_);
  const auto found = entries_.find(asked.first);
  if (found == entries_.end() || found->second.target != asked.second) return false;
  Entry& entry = found->second;
  entry.in_flight = false;
  entry.failures = answer ? 0 : std::min(entry.failures + 1, kMaxDoublings);
  entry.due = Clock::now() + options_.interval * (1 << entry.failures);
  if (!answer) return false;
  const bool news =
      !entry.latest || entry.latest->step != answer->step || entry.latest->phase != answer->phase;
  entry.latest = *answer;
  return news;
}

}  // namespace lockstep::control

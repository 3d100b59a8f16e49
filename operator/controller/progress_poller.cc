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

void ProgressPoller::watch(const kube::ObjectKey& job, const std::vector<ProgressTarget>& targets) {
  {
    const kube::MutexLock lock(mutex_);
    std::map<RankKey, Entry> kept;
    for (const ProgressTarget& target : targets) {
      const RankKey key = {job, target.rank};
      const auto known = entries_.find(key);
      if (known != entries_.end() && known->second.target == target) {
        kept.insert(entries_.extract(known));
      } else {
        kept.emplace(key, Entry{.target = target,
                                .heartbeat = plan::Heartbeat(Clock::now()),
                                .latest = {},
                                .step_times = {},
                                .due = Clock::now()});
      }
    }
    std::erase_if(entries_, [&](const auto& entry) { return entry.first.first == job; });
    entries_.merge(kept);
  }
  changed_.notify_all();
}

void ProgressPoller::forget(const kube::ObjectKey& job) {
  watch(job, {});
}

const ProgressPoller::Entry* ProgressPoller::find(const kube::ObjectKey& job, int64_t rank) const {
  const auto found = entries_.find({job, rank});
  return found == entries_.end() ? nullptr : &found->second;
}

std::optional<common::JobProgress> ProgressPoller::latest(const kube::ObjectKey& job) const {
  const kube::MutexLock lock(mutex_);
  const Entry* entry = find(job, 0);
  return entry == nullptr ? std::nullopt : entry->latest;
}

std::vector<plan::Pulse> ProgressPoller::pulses(const kube::ObjectKey& job) const {
  const kube::MutexLock lock(mutex_);
  std::vector<plan::Pulse> pulses;
  for (auto it = entries_.lower_bound({job, 0}); it != entries_.end(); ++it) {
    if (it->first.first != job) break;
    const auto pulse = it->second.heartbeat.pulse(it->first.second, Clock::now());
    if (pulse) pulses.push_back(*pulse);
  }
  return pulses;
}

std::optional<plan::Lag> ProgressPoller::straggler(const kube::ObjectKey& job) const {
  const kube::MutexLock lock(mutex_);
  const Entry* entry = find(job, 0);
  return entry == nullptr ? std::nullopt : entry->step_times.straggler();
}

bool ProgressPoller::knows_stragglers(const kube::ObjectKey& job) const {
  const kube::MutexLock lock(mutex_);
  const Entry* entry = find(job, 0);
  return entry != nullptr && entry->step_times.is_known();
}

std::chrono::seconds ProgressPoller::idle(const kube::ObjectKey& job) const {
  const kube::MutexLock lock(mutex_);
  const Entry* entry = find(job, 0);
  return entry == nullptr ? std::chrono::seconds(0) : entry->heartbeat.idle(Clock::now());
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
      return Asked{next->first.first, next->second.target};
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
  common::Result<common::JobProgress> answer = fetch_(target);
  // A rank of another attempt, or of another job that took over the address, tells us nothing.
  const bool is_it = !answer || (answer->attempt == target.attempt && answer->job == job.name &&
                                 answer->rank == target.rank);
  if (!is_it) {
    answer = common::Error{common::ErrorCode::kNotFound, "somebody else answers", ""};
  }
  if (settle(asked, answer)) on_progress_(job);
}

bool ProgressPoller::settle(const Asked& asked, const common::Result<common::JobProgress>& answer) {
  const kube::MutexLock lock(mutex_);
  const auto found = entries_.find({asked.first, asked.second.rank});
  if (found == entries_.end() || found->second.target != asked.second) return false;
  Entry& entry = found->second;
  entry.in_flight = false;
  entry.failures = answer ? 0 : std::min(entry.failures + 1, kMaxDoublings);
  entry.due = Clock::now() + options_.interval * (1 << entry.failures);
  if (!answer) {
    entry.heartbeat.missed();
    return false;
  }
  entry.heartbeat.answered(*answer, Clock::now());
  if (found->first.second != 0) return false;
  entry.step_times.add(*answer);
  const bool news =
      !entry.latest || entry.latest->step != answer->step || entry.latest->phase != answer->phase;
  entry.latest = *answer;
  return news;
}

}  // namespace lockstep::control

#include "operator/kube/work_queue.h"

#include <algorithm>

namespace lockstep::kube {

bool QueueState::add(const ObjectKey& key, Clock::time_point now) {
  if (!dirty_.insert(key).second) return false;
  if (!processing_.contains(key)) ready_.emplace_back(key, now);
  return true;
}

void QueueState::add_at(const ObjectKey& key, Clock::time_point when) {
  const auto [it, inserted] = delayed_.try_emplace(key, when);
  if (!inserted) {
    if (it->second <= when) return;
    by_time_.erase({it->second, key});
    it->second = when;
  }
  by_time_.emplace(when, key);
}

int QueueState::release_due(Clock::time_point now) {
  int added = 0;
  while (!by_time_.empty() && by_time_.begin()->first <= now) {
    const ObjectKey key = by_time_.begin()->second;
    by_time_.erase(by_time_.begin());
    delayed_.erase(key);
    if (add(key, now)) ++added;
  }
  return added;
}

std::optional<std::pair<ObjectKey, QueueState::Clock::time_point>> QueueState::pop() {
  if (ready_.empty()) return std::nullopt;
  std::pair<ObjectKey, Clock::time_point> front = std::move(ready_.front());
  ready_.pop_front();
  dirty_.erase(front.first);
  processing_.insert(front.first);
  return front;
}

bool QueueState::done(const ObjectKey& key, Clock::time_point now) {
  if (processing_.erase(key) == 0 || !dirty_.contains(key)) return false;
  ready_.emplace_back(key, now);
  return true;
}

std::chrono::milliseconds QueueState::next_backoff(const ObjectKey& key) {
  const int doublings = std::min(failures_[key]++, 30);
  return std::min(settings_.max_backoff, settings_.base_backoff * (int64_t{1} << doublings));
}

int QueueState::failures(const ObjectKey& key) const {
  const auto it = failures_.find(key);
  return it == failures_.end() ? 0 : it->second;
}

std::optional<QueueState::Clock::time_point> QueueState::next_due() const {
  if (by_time_.empty()) return std::nullopt;
  return by_time_.begin()->first;
}

WorkQueue::WorkQueue(QueueSettings settings, QueueObserver observer)
    : observer_(std::move(observer)), state_(settings) {}

void WorkQueue::add(const ObjectKey& key) {
  bool added = false;
  std::size_t depth_now = 0;
  {
    const MutexLock lock(mutex_);
    added = state_.add(key, Clock::now());
    depth_now = state_.depth();
  }
  if (!added) return;
  changed_.notify_one();
  if (observer_.on_add) observer_.on_add();
  notify_depth(depth_now);
}

void WorkQueue::add_after(const ObjectKey& key, std::chrono::milliseconds delay) {
  if (delay <= std::chrono::milliseconds(0)) return add(key);
  {
    const MutexLock lock(mutex_);
    state_.add_at(key, Clock::now() + delay);
  }
  changed_.notify_all();  // every waiter may have to wake earlier now
}

void WorkQueue::add_rate_limited(const ObjectKey& key) {
  {
    const MutexLock lock(mutex_);
    state_.add_at(key, Clock::now() + state_.next_backoff(key));
  }
  changed_.notify_all();
  if (observer_.on_retry) observer_.on_retry();
}

void WorkQueue::forget(const ObjectKey& key) {
  const MutexLock lock(mutex_);
  state_.forget(key);
}

int WorkQueue::failures(const ObjectKey& key) const {
  const MutexLock lock(mutex_);
  return state_.failures(key);
}

std::size_t WorkQueue::depth() const {
  const MutexLock lock(mutex_);
  return state_.depth();
}

std::optional<ObjectKey> WorkQueue::get(std::stop_token stop) {
  std::optional<std::pair<ObjectKey, Clock::time_point>> popped;
  Clock::time_point now;
  int added = 0;
  std::size_t depth_now = 0;
  {
    const MutexLock lock(mutex_);
    while (!popped) {
      if (stop.stop_requested()) return std::nullopt;
      now = Clock::now();
      added += state_.release_due(now);
      popped = state_.pop();
      if (popped) break;
      // The predicate is only "not yet": every wake-up looks at the state again.
      bool first = true;
      const auto woken = [&first] { return !std::exchange(first, false); };
      const std::optional<Clock::time_point> due = state_.next_due();
      if (due) {
        changed_.wait_until(mutex_, stop, *due, woken);
      } else {
        changed_.wait(mutex_, stop, woken);
      }
    }
    started_[popped->first] = now;
    depth_now = state_.depth();
  }
  // Several keys may have come due at once: let the other workers look.
  if (depth_now > 0) changed_.notify_one();
  for (int i = 0; observer_.on_add && i < added; ++i) observer_.on_add();
  if (observer_.on_get) observer_.on_get(now - popped->second);
  notify_depth(depth_now);
  return popped->first;
}

void WorkQueue::done(const ObjectKey& key) {
  bool again = false;
  std::optional<Clock::time_point> started;
  std::size_t depth_now = 0;
  const Clock::time_point now = Clock::now();
  {
    const MutexLock lock(mutex_);
    again = state_.done(key, now);
    depth_now = state_.depth();
    const auto it = started_.find(key);
    if (it != started_.end()) {
      started = it->second;
      started_.erase(it);
    }
  }
  if (again) changed_.notify_one();
  if (observer_.on_done && started) observer_.on_done(now - *started);
  if (again) notify_depth(depth_now);
}

void WorkQueue::notify_depth(std::size_t depth) const {
  if (observer_.on_depth) observer_.on_depth(depth);
}

}  // namespace lockstep::kube

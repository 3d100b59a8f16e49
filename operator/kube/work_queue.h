// The queue between informers and workers: a key waits once however often it is added, and is
// never in two hands.
// Source: kubernetes/client-go util/workqueue/{queue,delaying_queue,default_rate_limiters}.go.
#pragma once

#include <chrono>
#include <condition_variable>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <stop_token>
#include <utility>

#include "operator/kube/mutex.h"
#include "operator/kube/object_key.h"
#include "operator/kube/observer.h"

namespace lockstep::kube {

struct QueueSettings {
  std::chrono::milliseconds base_backoff{5};
  std::chrono::milliseconds max_backoff{1'000'000};
};

// The queue's rules, with the time passed in; not for several threads.
class QueueState {
 public:
  using Clock = std::chrono::steady_clock;

  explicit QueueState(QueueSettings settings = {}) : settings_(settings) {}

  // Makes `key` ready, or ready again once it is done if a worker holds it. False if nothing
  // changed, because it waits already.
  bool add(const ObjectKey& key, Clock::time_point now);
  // Adds `key` at `when`; the earlier of two times counts.
  void add_at(const ObjectKey& key, Clock::time_point when);
  // Moves the keys whose time has come to the ready ones; returns how many were added.
  int release_due(Clock::time_point now);
  // Hands out the oldest ready key, and since when it was ready.
  std::optional<std::pair<ObjectKey, Clock::time_point>> pop();
  // Gives back a key that was handed out. Returns true if it is ready again.
  bool done(const ObjectKey& key, Clock::time_point now);

  // Counts a failure of `key` and returns how long to wait: base * 2^failures up to the maximum.
  std::chrono::milliseconds next_backoff(const ObjectKey& key);
  // Ends the failures of `key`.
  void forget(const ObjectKey& key) { failures_.erase(key); }
  int failures(const ObjectKey& key) const;

  std::size_t depth() const { return ready_.size(); }
  std::optional<Clock::time_point> next_due() const;

 private:
  QueueSettings settings_;
  std::deque<std::pair<ObjectKey, Clock::time_point>> ready_;
  std::set<ObjectKey> dirty_;       // ready, or to be ready when done
  std::set<ObjectKey> processing_;  // handed out
  std::map<ObjectKey, Clock::time_point> delayed_;
  std::set<std::pair<Clock::time_point, ObjectKey>> by_time_;  // the same, in order of time
  std::map<ObjectKey, int> failures_;
};

// QueueState for several threads, on the real clock.
class WorkQueue {
 public:
  using Clock = QueueState::Clock;

  explicit WorkQueue(QueueSettings settings = {}, QueueObserver observer = {});

  void add(const ObjectKey& key);
  void add_after(const ObjectKey& key, std::chrono::milliseconds delay);
  // Adds after the back-off of the key's failures, counting one more.
  void add_rate_limited(const ObjectKey& key);
  void forget(const ObjectKey& key);
  int failures(const ObjectKey& key) const;
  std::size_t depth() const;

  // Blocks until a key is ready and hands it out; nothing once `stop` is requested, even if keys
  // wait. Every key handed out is given back by done().
  std::optional<ObjectKey> get(std::stop_token stop);
  void done(const ObjectKey& key);

 private:
  void notify_depth(std::size_t depth) const;

  const QueueObserver observer_;
  mutable Mutex mutex_;
  std::condition_variable_any changed_;
  QueueState state_ GUARDED_BY(mutex_);
  std::map<ObjectKey, Clock::time_point> started_ GUARDED_BY(mutex_);  // keys in a worker's hands
};

}  // namespace lockstep::kube

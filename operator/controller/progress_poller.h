// Pulls rank 0's /status of every running job. Nothing reaches into the operator.
#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <map>
#include <optional>
#include <stop_token>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "operator/kube/mutex.h"
#include "operator/kube/object_key.h"
#include "runtime/common/progress.h"
#include "runtime/common/result.h"

namespace lockstep::control {

// Where rank 0 of an attempt answers.
struct ProgressTarget {
  std::string host;
  int port = 0;
  int attempt = 0;
  auto operator<=>(const ProgressTarget&) const = default;
};

class ProgressPoller {
 public:
  using Fetch =
      std::function<common::Result<common::JobProgress>(const std::string& host, int port)>;
  using OnProgress = std::function<void(const kube::ObjectKey& job)>;

  struct Options {
    std::chrono::milliseconds interval{2000};
    // Requests at once. A rank that hangs holds one until `fetch` gives up, and is asked less and
    // less often, so that it does not keep the others waiting.
    int num_threads = 4;
  };

  // Asks every target once per interval through `fetch`; `on_progress` is called, without a lock,
  // when a job's step or phase has changed. Both must stay callable until destruction, which waits
  // for the requests under way.
  ProgressPoller(Options options, Fetch fetch, OnProgress on_progress);
  ~ProgressPoller();

  // Starts, moves or goes on with polling a job; what an older attempt told is dropped.
  void watch(const kube::ObjectKey& job, const ProgressTarget& target);
  // Ends polling and drops what is known.
  void forget(const kube::ObjectKey& job);
  // The latest answer of the target being watched.
  std::optional<common::JobProgress> latest(const kube::ObjectKey& job) const;

 private:
  using Clock = std::chrono::steady_clock;
  struct Entry {
    ProgressTarget target;
    std::optional<common::JobProgress> latest;
    Clock::time_point due;
    int failures = 0;  // in a row
    bool in_flight = false;
  };
  using Asked = std::pair<kube::ObjectKey, ProgressTarget>;

  void run(const std::stop_token& stop);
  // Waits for a target that is due and takes it; nothing if stopped.
  std::optional<Asked> take_due(const std::stop_token& stop);
  void poll(const Asked& asked);
  // Records an answer, or that there was none. True if the job's step or phase has changed.
  bool settle(const Asked& asked, const common::Result<common::JobProgress>& answer);

  const Options options_;
  const Fetch fetch_;
  const OnProgress on_progress_;
  mutable kube::Mutex mutex_;
  std::condition_variable_any changed_;
  std::map<kube::ObjectKey, Entry> entries_ GUARDED_BY(mutex_);
  std::vector<std::jthread> threads_;  // last: they use all of the above
};

}  // namespace lockstep::control

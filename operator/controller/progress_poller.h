// Pulls the /status of running ranks: of rank 0 always, of the others when asked to. Nothing
// reaches into the operator.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
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
#include "operator/plan/heartbeat.h"
#include "operator/plan/plan.h"
#include "operator/plan/straggler.h"
#include "runtime/common/progress.h"
#include "runtime/common/result.h"

namespace lockstep::control {

// Where a rank of an attempt answers.
struct ProgressTarget {
  int64_t rank = 0;
  std::string host;
  int port = 0;
  std::string path = "/status";  // of one rank, where several share host and port
  int attempt = 0;
  auto operator<=>(const ProgressTarget&) const = default;
};

class ProgressPoller {
 public:
  using Fetch = std::function<common::Result<common::JobProgress>(const ProgressTarget& target)>;
  using OnProgress = std::function<void(const kube::ObjectKey& job)>;

  struct Options {
    std::chrono::milliseconds interval{2000};
    // Requests at once. A rank that hangs holds one until `fetch` gives up, and is asked less and
    // less often, so that it does not keep the others waiting.
    int num_threads = 8;
  };

  // Asks every target once per interval through `fetch`; `on_progress` is called, without a lock,
  // when rank 0's step or phase has changed. Both must stay callable until destruction, which waits
  // for the requests under way.
  ProgressPoller(Options options, Fetch fetch, OnProgress on_progress);
  ~ProgressPoller();

  // Polls exactly these ranks of a job from now on; what an older attempt told is dropped.
  void watch(const kube::ObjectKey& job, const std::vector<ProgressTarget>& targets);
  // Ends polling and drops what is known.
  void forget(const kube::ObjectKey& job);

  // The latest answer of rank 0 of the attempt being watched.
  std::optional<common::JobProgress> latest(const kube::ObjectKey& job) const;
  // The heartbeats of the ranks that were asked, in order of rank.
  std::vector<plan::Pulse> pulses(const kube::ObjectKey& job) const;
  std::optional<plan::Lag> straggler(const kube::ObjectKey& job) const;
  // Whether enough steps were timed to tell that there is one, or none.
  bool knows_stragglers(const kube::ObjectKey& job) const;
  // How long rank 0 has been silent, or has done nothing; 0 if it is not watched.
  std::chrono::seconds idle(const kube::ObjectKey& job) const;

 private:
  using Clock = std::chrono::steady_clock;
  using RankKey = std::pair<kube::ObjectKey, int64_t>;
  struct Entry {
    ProgressTarget target;
    plan::Heartbeat heartbeat;
    std::optional<common::JobProgress> latest;
    plan::StepTimes step_times;
    Clock::time_point due;
    int failures = 0;  // in a row
    bool in_flight = false;
  };
  using Asked = std::pair<kube::ObjectKey, ProgressTarget>;

  void run(const std::stop_token& stop);
  // Waits for a target that is due and takes it; nothing if stopped.
  std::optional<Asked> take_due(const std::stop_token& stop);
  void poll(const Asked& asked);
  // The entry of a rank, or null. Called under mutex_.
  const Entry* find(const kube::ObjectKey& job, int64_t rank) const REQUIRES(mutex_);
  // Records an answer, or that there was none. True if rank 0's step or phase has changed.
  bool settle(const Asked& asked, const common::Result<common::JobProgress>& answer);

  const Options options_;
  const Fetch fetch_;
  const OnProgress on_progress_;
  mutable kube::Mutex mutex_;
  std::condition_variable_any changed_;
  std::map<RankKey, Entry> entries_ GUARDED_BY(mutex_);
  std::vector<std::jthread> threads_;  // last: they use all of the above
};

}  // namespace lockstep::control

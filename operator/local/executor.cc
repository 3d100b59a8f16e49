#include "operator/local/executor.h"

#include <chrono>

#include <sys/poll.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "operator/plan/status.h"
#include "runtime/common/status_client.h"

namespace lockstep::local {

namespace {

using common::Result;
using Clock = std::chrono::steady_clock;

constexpr std::chrono::milliseconds kTick{50};
constexpr std::chrono::milliseconds kProgressInterval{250};
constexpr std::chrono::milliseconds kStatusTimeout{200};

api::Time now_seconds() {
  return std::chrono::floor<std::chrono::seconds>(std::chrono::system_clock::now());
}

// Waits for a signal or the next tick; true if one came.
bool wait_tick(int signal_fd) {
  pollfd watched{signal_fd, POLLIN, 0};
  if (poll(&watched, 1, static_cast<int>(kTick.count())) <= 0) return false;
  signalfd_siginfo info{};
  return read(signal_fd, &info, sizeof info) == static_cast<ssize_t>(sizeof info);
}

// The loop's state: what a cluster would keep in its API server.
class LocalRun {
 public:
  LocalRun(api::TrainingJob job, const ExecutorOptions& options)
      : job_(std::move(job)), options_(options), cluster_(options.processes) {
    // The UID is what tells one run from another in a used output folder.
    job_.meta.uid = "local-" + std::to_string(getpid()) + "-" +
                    std::to_string(std::chrono::system_clock::now().time_since_epoch().count());
    job_.meta.ns = "local";
    job_.meta.generation = 1;
  }

  Result<RunReport> run() {
    while (true) {
      RETURN_IF_ERROR(plan_once());
      if (is_over()) return report(ended_as());
      if (!wait_tick(options_.signal_fd)) continue;
      if (job_.spec.suspend) {
        cluster_.kill_all();
        return report(RunEnd::kKilled);
      }
      job_.spec.suspend = true;
      ++job_.meta.generation;
      tell({true, "Suspending",
            "stopping after a checkpoint; press Ctrl-C again to kill the ranks"});
    }
  }

 private:
  Result<void> plan_once() {
    plan::Observation seen = cluster_.observe(job_.meta.uid);
    poll_progress();
    if (progress_ && progress_->attempt == job_.status.attempt) seen.strategy = progress_->strategy;
    const plan::Plan next = plan::plan(job_, seen, {"local"}, now_seconds());
    RETURN_IF_ERROR(cluster_.apply(next.actions));
    job_.status = next.status;
    for (const plan::Event& event : next.events) tell(event);
    return {};
  }

  void poll_progress() {
    const std::optional<int> port = cluster_.metrics_port(job_.status.attempt, 0);
    if (!port || Clock::now() < next_poll_) return;
    next_poll_ = Clock::now() + kProgressInterval;
    Result<common::JobProgress> answer = common::fetch_status("127.0.0.1", *port, kStatusTimeout);
    if (!answer) return;  // not listening yet, or just gone
    progress_ = std::move(answer).value();
    if (options_.on_progress) options_.on_progress(*progress_);
  }

  bool is_over() const {
    const api::Condition* accepted = plan::find_condition(job_.status, plan::kAccepted);
    const bool refused = accepted != nullptr && accepted->status == api::ConditionStatus::kFalse;
    const bool settled =
        refused || plan::is_finished(job_.status) || plan::is_true(job_.status, plan::kSuspended);
    return settled && !cluster_.has_live_processes();
  }

  RunEnd ended_as() const {
    if (plan::is_true(job_.status, plan::kSucceeded)) return RunEnd::kSucceeded;
    if (plan::is_true(job_.status, plan::kSuspended)) return RunEnd::kSuspended;
    return RunEnd::kFailed;
  }

  RunReport report(RunEnd end) const {
    RunReport result{end, job_.status, progress_, ""};
    if (job_.status.first_failure) {
      const api::FirstFailure& failure = *job_.status.first_failure;
      result.failed_log = cluster_.log_file(failure.attempt, failure.rank);
    }
    return result;
  }

  void tell(const plan::Event& event) const {
    if (options_.on_event) options_.on_event(event);
  }

  api::TrainingJob job_;
  const ExecutorOptions& options_;
  ProcessCluster cluster_;
  std::optional<common::JobProgress> progress_;
  Clock::time_point next_poll_{};
};

}  // namespace

Result<RunReport> run_job(api::TrainingJob job, const ExecutorOptions& options) {
  return LocalRun(std::move(job), options).run();
}

}  // namespace lockstep::local

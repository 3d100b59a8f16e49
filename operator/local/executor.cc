#include "operator/local/executor.h"

#include <chrono>
#include <cstdint>
#include <map>
#include <utility>

#include <unistd.h>

#include "operator/local/node_group.h"
#include "operator/local/signal_wait.h"
#include "operator/plan/heartbeat.h"
#include "operator/plan/stall.h"
#include "operator/plan/status.h"
#include "operator/plan/straggler.h"

namespace lockstep::local {

namespace {

using common::Result;
using Clock = std::chrono::steady_clock;

constexpr std::chrono::milliseconds kTick{50};
constexpr std::chrono::milliseconds kProgressInterval{250};

// The loop's state: what a cluster would keep in its API server.
class LocalRun {
 public:
  LocalRun(api::TrainingJob job, const ExecutorOptions& options, std::vector<NodeLink> others)
      : job_(std::move(job)), options_(options), cluster_(options.processes, std::move(others)) {
    // The UID is what tells one run from another in a used output folder.
    job_.meta.uid = "local-" + std::to_string(getpid()) + "-" +
                    std::to_string(std::chrono::system_clock::now().time_since_epoch().count());
    job_.meta.ns = "local";
    job_.meta.generation = 1;
    job_.spec.managed_by.clear();  // here, we do
    job_.spec.ranks_per_pod = 1;   // a process for every rank, whichever pod it would be in
    job_.spec.scheduling.gang_scheduler = api::GangScheduler::kNone;  // they have this machine
  }

  Result<RunReport> run() {
    Result<RunReport> report = run_to_end();
    cluster_.dismiss(farewell(report));
    return report;
  }

 private:
  Result<RunReport> run_to_end() {
    while (true) {
      plan::Observation seen = cluster_.observe(job_.meta.uid);
      if (cluster_.failure()) return *cluster_.failure();
      if (cluster_.lost_node()) {
        cluster_.kill_all();
        return report(RunEnd::kNodeLost);
      }
      if (!cluster_.is_doubtful()) RETURN_IF_ERROR(plan_once(std::move(seen)));
      if (is_over()) return report(ended_as());
      if (cluster_.take_stop_wish() && !job_.spec.suspend) suspend("stopping as another node asks");
      if (!wait_for_signal(options_.signal_fd, kTick)) continue;
      if (job_.spec.suspend) {
        cluster_.kill_all();
        return report(RunEnd::kKilled);
      }
      suspend("stopping");
    }
  }

  void suspend(const std::string& what) {
    job_.spec.suspend = true;
    ++job_.meta.generation;
    tell({true, "Suspending", what + " after a checkpoint; press Ctrl-C again to kill the ranks"});
  }

  Result<void> plan_once(plan::Observation seen) {
    poll_progress();
    tell_progress(seen);
    const plan::Plan next = plan::plan(
        job_, seen, {.runtime_image = "local", .avoids_nodes = false}, api::wall_clock());
    RETURN_IF_ERROR(cluster_.apply(next.actions));
    job_.status = next.status;
    for (const plan::Event& event : next.events) tell(event);
    return {};
  }

  // Asks rank 0, and the others too when it has been idle for long.
  void poll_progress() {
    const int64_t attempt = job_.status.attempt;
    if (attempt != attempt_) {
      attempt_ = attempt;
      heartbeats_.clear();
      step_times_ = {};
    }
    if (Clock::now() < next_poll_) return;
    next_poll_ = Clock::now() + kProgressInterval;
    const auto rank0 = heartbeats_.find(0);
    const bool asks_all =
        rank0 != heartbeats_.end() && plan::asks_every_rank(job_, rank0->second.idle(Clock::now()));
    poll_rank(0);
    for (int64_t rank = 1; asks_all && rank < job_.status.ranks.desired; ++rank) poll_rank(rank);
  }

  void poll_rank(int64_t rank) {
    if (!job_.spec.command.empty()) return;
    auto answer = cluster_.progress_of(job_.status.attempt, rank);
    if (!answer) return;
    plan::Heartbeat& heartbeat = heartbeats_.try_emplace(rank, Clock::now()).first->second;
    if (!*answer) return heartbeat.missed();  // not listening yet, or just gone
    heartbeat.answered(answer->value(), Clock::now());
    if (rank != 0) return;
    step_times_.add(answer->value());
    progress_ = std::move(answer->value());
    if (options_.on_progress) options_.on_progress(*progress_);
  }

  // What the ranks told, for the plan.
  void tell_progress(plan::Observation& seen) const {
    for (const auto& [rank, heartbeat] : heartbeats_) {
      const std::optional<plan::Pulse> pulse = heartbeat.pulse(rank, Clock::now());
      if (pulse) seen.pulses.push_back(*pulse);
    }
    seen.straggler = step_times_.straggler();
    if (!progress_ || progress_->attempt != job_.status.attempt) return;
    seen.strategy = progress_->strategy;
    if (progress_->step > 0) {
      seen.progress = plan::progress_status(*progress_, job_.status.progress, api::wall_clock());
    }
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
    RunReport result{end, job_.status, progress_, "", cluster_.lost_node().value_or("")};
    if (job_.status.first_failure) {
      const api::FirstFailure& failure = *job_.status.first_failure;
      result.failed_log = cluster_.log_file(failure.attempt, failure.rank);
    }
    return result;
  }

  static NodeFarewell farewell(const Result<RunReport>& report) {
    if (!report) return {RunEnd::kFailed, report.error().message, report.error().hint};
    if (report->end == RunEnd::kNodeLost) return {report->end, report->lost_node};
    if (report->end != RunEnd::kFailed) return {report->end, ""};
    const auto& failure = report->status.first_failure;
    return {report->end, report->status.message, failure ? failure->hint : ""};
  }

  void tell(const plan::Event& event) const {
    if (options_.on_event) options_.on_event(event);
  }

  api::TrainingJob job_;
  const ExecutorOptions& options_;
  NodeGroup cluster_;
  std::optional<common::JobProgress> progress_;
  std::map<int64_t, plan::Heartbeat> heartbeats_;  // by rank, of attempt_
  plan::StepTimes step_times_;
  int64_t attempt_ = 0;
  Clock::time_point next_poll_{};
};

}  // namespace

Result<RunReport> run_job(api::TrainingJob job, const ExecutorOptions& options,
                          std::vector<NodeLink> others) {
  return LocalRun(std::move(job), options, std::move(others)).run();
}

}  // namespace lockstep::local

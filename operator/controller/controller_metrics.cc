#include "operator/controller/controller_metrics.h"

#include <algorithm>
#include <map>
#include <utility>

#include "operator/plan/status.h"

namespace lockstep::control {

namespace {

const std::vector<double> kSeconds = {0.005, 0.025, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30};
const std::map<std::string, std::string> kController = {{"controller", "trainingjob"}};
const std::map<std::string, std::string> kQueue = {{"name", "trainingjob"},
                                                   {"controller", "trainingjob"}};

std::string result_label(ReconcileResult result) {
  switch (result) {
    case ReconcileResult::kSuccess:
      return "success";
    case ReconcileResult::kRequeueAfter:
      return "requeue_after";
    case ReconcileResult::kError:
      return "error";
  }
  return "error";
}

common::MetricName reconciles(ReconcileResult result) {
  std::map<std::string, std::string> labels = kController;
  labels["result"] = result_label(result);
  return {"controller_runtime_reconcile_total", "Reconciles.", labels};
}

const common::MetricName kErrors{"controller_runtime_reconcile_errors_total", "Failed reconciles.",
                                 kController};
const common::MetricName kReconcileTime{"controller_runtime_reconcile_time_seconds",
                                        "Time of a reconcile.", kController};
const common::MetricName kFenced{
    "lockstep_fenced_writes_total", "Writes not sent because this process does not lead.", {}};
const common::MetricName kDepth{"workqueue_depth", "Keys that wait.", kQueue};
const common::MetricName kAdds{"workqueue_adds_total", "Keys added.", kQueue};
const common::MetricName kRetries{"workqueue_retries_total", "Keys added after a failure.", kQueue};
const common::MetricName kWaits{"workqueue_queue_duration_seconds", "Time in the queue.", kQueue};
const common::MetricName kWorks{"workqueue_work_duration_seconds", "Time of work.", kQueue};

common::MetricName slow_path(const std::string& lease) {
  return {
      "leader_election_slowpath_total", "Renewals that read the Lease first.", {{"name", lease}}};
}

// Not `job`: Prometheus gives every series a label of that name, what it was scraped for.
std::map<std::string, std::string> labels_of(const api::TrainingJob& job) {
  return {{"namespace", job.meta.ns}, {"trainingjob", job.meta.name}};
}

// Every state of an unfinished job, the one that it is in as 1.
void tell_state(const api::TrainingJob& job, common::Metrics& now) {
  for (const char* state : {"Queued", "Pending", "Starting", "Running", "Restarting", "Suspending",
                            "Suspended", "Invalid"}) {
    std::map<std::string, std::string> labels = labels_of(job);
    labels["state"] = state;
    now.gauge({"lockstep_job_state", "1 for the state that the job is in.", labels})
        .Set(job.status.state == state ? 1 : 0);
  }
}

// The series of one job that has not finished.
void tell_job(const api::TrainingJob& job, common::Metrics& now) {
  const api::TrainingJobStatus& status = job.status;
  const std::map<std::string, std::string> labels = labels_of(job);
  tell_state(job, now);
  const auto set = [&](const char* name, const char* help, int64_t value) {
    now.gauge({name, help, labels}).Set(static_cast<double>(value));
  };
  set("lockstep_job_attempt", "Current attempt.", status.attempt);
  set("lockstep_job_restarts", "Restarts that were charged.", status.restarts);
  set("lockstep_job_ranks_desired", "Ranks wanted.", status.ranks.desired);
  set("lockstep_job_ranks_running", "Ranks that run.", status.ranks.running);
  set("lockstep_job_stalled", "1 if no rank makes steps.", plan::is_true(status, plan::kStalled));
  set("lockstep_job_straggling", "1 if a rank keeps the others waiting.", status.straggler ? 1 : 0);
  if (status.progress) {
    set("lockstep_job_step", "Last step told by rank 0.", status.progress->step);
    set("lockstep_job_total_steps", "Steps to make.", status.progress->total_steps);
    set("lockstep_job_checkpoint_step", "Step of the newest checkpoint.",
        status.progress->last_checkpoint_step.value_or(0));
    set("lockstep_job_tokens_per_second", "Told by rank 0.", status.progress->tokens_per_second);
  }
  if (!status.goodput) return;
  const api::Goodput& goodput = *status.goodput;
  set("lockstep_job_lost_steps", "Steps that had to be made again.", goodput.lost_steps);
  const std::pair<const char*, int64_t> phases[] = {
      {"queued", goodput.queued_seconds},      {"scheduling", goodput.scheduling_seconds},
      {"starting", goodput.starting_seconds},  {"productive", goodput.productive_seconds},
      {"lost", goodput.lost_seconds},          {"down", goodput.down_seconds},
      {"suspended", goodput.suspended_seconds}};
  for (const auto& [phase, seconds] : phases) {
    std::map<std::string, std::string> of_phase = labels;
    of_phase["phase"] = phase;
    now.gauge({"lockstep_job_phase_seconds", "Where the job's time went.", of_phase})
        .Set(static_cast<double>(seconds));
  }
}

// The one series of a finished job, for as long as the job is there. Of more than `limit` jobs
// those that finished last have one.
void tell_ends(std::vector<const api::TrainingJob*> finished, std::size_t limit,
               common::Metrics& now) {
  const auto end_of = [](const api::TrainingJob* job) {
    return job->status.completion_time.value_or(api::Time{});
  };
  const std::size_t num_told = std::min(finished.size(), limit);
  std::partial_sort(
      finished.begin(), finished.begin() + static_cast<std::ptrdiff_t>(num_told), finished.end(),
      [&](const api::TrainingJob* a, const api::TrainingJob* b) { return end_of(a) > end_of(b); });
  finished.resize(num_told);
  for (const api::TrainingJob* job : finished) {
    const api::Condition* failure = plan::find_condition(job->status, plan::kFailed);
    const bool failed = plan::is_true(job->status, plan::kFailed);
    std::map<std::string, std::string> labels = labels_of(*job);
    labels["outcome"] = failed ? "Failed" : "Succeeded";
    labels["reason"] = failed ? failure->reason : "";
    now.gauge({"lockstep_job_completion_timestamp_seconds", "When the job ended.", labels})
        .Set(std::chrono::duration<double>(end_of(job).time_since_epoch()).count());
  }
}

}  // namespace

ControllerMetrics::ControllerMetrics(int num_workers) : num_workers_(num_workers) {
  for (const ReconcileResult result :
       {ReconcileResult::kSuccess, ReconcileResult::kRequeueAfter, ReconcileResult::kError}) {
    metrics_.counter(reconciles(result));
  }
  for (const common::MetricName* name : {&kErrors, &kAdds, &kRetries}) metrics_.counter(*name);
  for (const common::MetricName* name : {&kReconcileTime, &kWaits, &kWorks}) {
    metrics_.histogram(*name, kSeconds);
  }
  metrics_.gauge(kDepth);
}

kube::RequestObserver ControllerMetrics::request_observer() {
  return {[this](std::string_view method, std::string_view code, const std::string& host,
                 std::chrono::duration<double> elapsed) {
    const std::string verb(method);
    metrics_
        .counter({"rest_client_requests_total",
                  "Requests to the API server.",
                  {{"method", verb}, {"code", std::string(code)}, {"host", host}}})
        .Increment();
    metrics_
        .histogram(
            {"rest_client_request_duration_seconds", "Latency of requests.", {{"verb", verb}}},
            kSeconds)
        .Observe(elapsed.count());
  }};
}

kube::QueueObserver ControllerMetrics::queue_observer() {
  kube::QueueObserver observer;
  observer.on_depth = [this](std::size_t depth) {
    metrics_.gauge(kDepth).Set(static_cast<double>(depth));
  };
  observer.on_add = [this] { metrics_.counter(kAdds).Increment(); };
  observer.on_retry = [this] { metrics_.counter(kRetries).Increment(); };
  observer.on_get = [this](std::chrono::duration<double> waited) {
    metrics_.histogram(kWaits, kSeconds).Observe(waited.count());
  };
  observer.on_done = [this](std::chrono::duration<double> worked) {
    metrics_.histogram(kWorks, kSeconds).Observe(worked.count());
  };
  return observer;
}

void ControllerMetrics::on_work(Clock::time_point begin) {
  const kube::MutexLock lock(mutex_);
  begun_.insert(begin);
}

void ControllerMetrics::on_reconcile(ReconcileResult result, Clock::time_point begin,
                                     Clock::time_point end) {
  metrics_.counter(reconciles(result)).Increment();
  if (result == ReconcileResult::kError) metrics_.counter(kErrors).Increment();
  const std::chrono::duration<double> elapsed = end - begin;
  metrics_.histogram(kReconcileTime, kSeconds).Observe(elapsed.count());
  const kube::MutexLock lock(mutex_);
  if (const auto work = begun_.find(begin); work != begun_.end()) begun_.erase(work);
}

void ControllerMetrics::on_leader(const std::string& lease, bool leads) {
  metrics_.counter(slow_path(lease));
  metrics_.counter(kFenced);
  metrics_.gauge({"leader_election_master_status", "1 if this process leads.", {{"name", lease}}})
      .Set(leads ? 1 : 0);
}

void ControllerMetrics::on_leader_slow_path(const std::string& lease) {
  metrics_.counter(slow_path(lease)).Increment();
}

void ControllerMetrics::on_fenced_write() {
  metrics_.counter(kFenced).Increment();
}

std::chrono::seconds ControllerMetrics::longest_reconcile(Clock::time_point at) const {
  const kube::MutexLock lock(mutex_);
  if (begun_.empty()) return std::chrono::seconds(0);
  return std::chrono::floor<std::chrono::seconds>(at - *begun_.begin());
}

// What is under way at this moment.
void ControllerMetrics::tell_workers(Clock::time_point at, common::Metrics& now) const {
  std::chrono::duration<double> unfinished{0};
  std::chrono::duration<double> longest{0};
  std::size_t num_active = 0;
  {
    const kube::MutexLock lock(mutex_);
    num_active = begun_.size();
    for (const Clock::time_point begin : begun_) unfinished += at - begin;
    if (!begun_.empty()) longest = at - *begun_.begin();
  }
  const auto set = [&now](const char* name, const char* help,
                          const std::map<std::string, std::string>& labels, double value) {
    now.gauge({name, help, labels}).Set(value);
  };
  set("controller_runtime_active_workers", "Workers at a job.", kController,
      static_cast<double>(num_active));
  set("controller_runtime_max_concurrent_reconciles", "Workers.", kController, num_workers_);
  set("workqueue_unfinished_work_seconds", "Time that the jobs in work have taken so far.", kQueue,
      unfinished.count());
  set("workqueue_longest_running_processor_seconds", "The longest of them.", kQueue,
      longest.count());
}

std::string ControllerMetrics::text(const std::vector<api::TrainingJob>& jobs) const {
  // Series of single jobs are made for this answer only, so a deleted job leaves none behind.
  common::Metrics now;
  std::size_t num_told = 0;
  std::vector<const api::TrainingJob*> finished;
  for (const api::TrainingJob& job : jobs) {
    const std::string state = job.status.state.empty() ? "Unknown" : job.status.state;
    now.gauge({"lockstep_jobs", "Jobs by state.", {{"state", state}}}).Increment();
    if (plan::is_finished(job.status)) {
      finished.push_back(&job);
      continue;
    }
    if (num_told < kMaxJobSeries) tell_job(job, now);
    ++num_told;
  }
  now.gauge({"lockstep_jobs_without_series", "Unfinished jobs beyond the limit of series.", {}})
      .Set(static_cast<double>(num_told - std::min(num_told, kMaxJobSeries)));
  tell_ends(std::move(finished), kMaxJobSeries, now);
  tell_workers(Clock::now(), now);
  now.gauge({"process_resident_memory_bytes", "Resident memory.", {}})
      .Set(common::resident_bytes());
  return metrics_.text() + now.text();
}

}  // namespace lockstep::control

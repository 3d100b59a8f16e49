#include "operator/controller/reconciler.h"

#include <algorithm>
#include <utility>

#include "operator/api/codec.h"

namespace lockstep::control {

namespace {

using common::Result;

// How soon to look again at a job of which our stores lag behind our own writes. Their watch wakes
// the job as a rule; it does not if an object came and went between two lists.
constexpr std::chrono::milliseconds kStaleRetry{500};

// How soon to plan again once a name has turned out to be taken.
constexpr std::chrono::milliseconds kTakenRetry{10};

// How long to wait for our own writes to come back. Only an API server restored from a backup,
// whose versions went back, keeps us waiting that long.
constexpr std::chrono::minutes kTrustOwnWrites{5};

kube::ObjectKey key_of(const api::TrainingJob& job) {
  return {job.meta.ns, job.meta.name};
}

// What rank 0 told, reported at `now`; `known` itself if that is no news, so that a job which
// stands still is not written again.
api::ProgressStatus progress_status(const common::JobProgress& progress,
                                    const std::optional<api::ProgressStatus>& known,
                                    api::Time now) {
  api::ProgressStatus status;
  status.step = progress.step;
  status.total_steps = progress.total_steps;
  status.loss = api::format_loss(progress.loss);
  status.tokens_per_second = static_cast<int64_t>(progress.tokens_per_second);
  status.eta_seconds = progress.eta_seconds;
  status.last_checkpoint_step = progress.last_checkpoint_step;
  if (known) {
    status.last_update_time = known->last_update_time;
    if (status == *known) return status;
  }
  status.last_update_time = now;
  return status;
}

// True if the API server will go on refusing an action until somebody changes something, e.g. a
// quota: the job says so.
bool is_refused(const Result<void>& applied) {
  if (applied || is_ending(applied.error())) return false;
  return applied.error().code == common::ErrorCode::kPermissionDenied ||
         applied.error().code == common::ErrorCode::kInvalidArgument;
}

}  // namespace

Reconciler::Reconciler(kube::Client& client, ClusterView& view, ProgressPoller& progress,
                       Options options)
    : client_(client), view_(view), progress_(progress), options_(std::move(options)) {}

Result<Outcome> Reconciler::reconcile(const kube::ObjectKey& key) {
  const std::optional<api::TrainingJob> job = view_.job(key);
  if (!job) {  // deleted: owner references clean up
    forget(key);
    return Outcome::await_change();
  }
  if (!has_seen_own_writes(*job)) return Outcome::requeue(kStaleRetry);
  const plan::Observation seen = observe(*job);
  plan::Plan next = plan::plan(*job, seen, options_.settings, options_.now());
  ApplyOutcome applied = apply_in_order(client_, *job, next.actions);
  remember_created(key, applied.created_versions);
  if (!applied.taken_names.empty()) {
    // This plan's status does not know who has the name; the next one's does.
    view_.remember_taken(key, std::move(applied.taken_names));
    return Outcome::requeue(kTakenRetry);
  }
  if (is_refused(applied.result)) next.status.message = applied.result.error().message;
  if (const Result<void> written = write_if_changed(*job, next.status); !written) {
    if (is_ending(written.error())) return Outcome::await_change();
    return written.error();
  }
  emit(*job, next.events);
  follow_progress(*job, seen);
  if (!applied.result) {
    if (is_ending(applied.result.error())) return Outcome::await_change();
    return applied.result.error();
  }
  return next.requeue_after ? Outcome::requeue(*next.requeue_after) : Outcome::await_change();
}

bool Reconciler::has_seen_own_writes(const api::TrainingJob& job) const {
  const kube::MutexLock lock(mutex_);
  const auto found = written_.find(key_of(job));
  if (found == written_.end()) return true;
  const Written& written = found->second;
  if (options_.now() - written.at > kTrustOwnWrites) return true;
  if (kube::is_older(job.meta.resource_version, written.job_version)) return false;
  return std::all_of(
      written.child_versions.begin(), written.child_versions.end(),
      [this](const auto& child) { return view_.has_seen(child.first, child.second); });
}

void Reconciler::remember_created(const kube::ObjectKey& key,
                                  const std::map<ChildKind, std::string>& versions) {
  if (versions.empty()) return;
  const kube::MutexLock lock(mutex_);
  Written& written = written_[key];
  written.at = options_.now();
  for (const auto& [kind, version] : versions) written.child_versions[kind] = version;
}

plan::Observation Reconciler::observe(const api::TrainingJob& job) const {
  plan::Observation seen = view_.observe(job);
  const std::optional<common::JobProgress> progress = progress_.latest(key_of(job));
  if (!progress || progress->attempt != job.status.attempt) return seen;
  seen.strategy = progress->strategy;
  if (progress->step > 0) {
    seen.progress = progress_status(*progress, job.status.progress, options_.now());
  }
  return seen;
}

void Reconciler::follow_progress(const api::TrainingJob& job, const plan::Observation& seen) {
  for (const plan::PodView& pod : seen.pods) {
    const bool answers = pod.rank == 0 && pod.attempt == job.status.attempt &&
                         pod.owner_uid == job.meta.uid && pod.phase == plan::PodPhase::kRunning &&
                         !pod.deleting && !pod.pod_ip.empty();
    if (!answers || job.spec.train.is_null()) continue;
    progress_.watch(key_of(job), {pod.pod_ip, static_cast<int>(options_.settings.metrics_port),
                                  static_cast<int>(pod.attempt)});
    return;
  }
  progress_.forget(key_of(job));
}

void Reconciler::forget(const kube::ObjectKey& key) {
  progress_.forget(key);
  const kube::MutexLock lock(mutex_);
  written_.erase(key);
}

Result<void> Reconciler::write_if_changed(const api::TrainingJob& job,
                                          const api::TrainingJobStatus& status) {
  // As JSON: what the codec cuts must not look like a change at every reconcile.
  if (api::encode_status(status) == api::encode_status(job.status)) return {};
  ASSIGN_OR_RETURN(const std::string version, write_status(client_, job, status));
  if (status.state != job.status.state) {
    log_.info("job", {{"job", kube::to_string(key_of(job))},
                      {"state", status.state},
                      {"attempt", status.attempt},
                      {"message", status.message}});
  }
  const kube::MutexLock lock(mutex_);
  Written& written = written_[key_of(job)];
  written.at = options_.now();
  written.job_version = version;
  return {};
}

void Reconciler::emit(const api::TrainingJob& job, const std::vector<plan::Event>& events) const {
  for (const plan::Event& event : events) {
    const Result<void> emitted = emit_event(client_, job, event, options_.now());
    if (emitted) continue;
    log_.warning("event_lost", {{"job", kube::to_string(key_of(job))},
                                {"reason", event.reason},
                                {"error", emitted.error().message}});
  }
}

}  // namespace lockstep::control

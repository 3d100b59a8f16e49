#include "operator/controller/reconciler.h"

#include <algorithm>
#include <utility>
#include <variant>

#include "operator/api/codec.h"
#include "operator/controller/events.h"
#include "operator/controller/refusal.h"
#include "operator/controller/warnings.h"
#include "operator/plan/queue.h"
#include "operator/plan/stall.h"
#include "operator/plan/status.h"

namespace lockstep::control {

namespace {

using common::Result;

// How soon to look again at a job of which our stores lag behind our own writes. Their watch wakes
// the job as a rule; it does not if an object came and went between two lists.
constexpr std::chrono::milliseconds kStaleRetry{500};
constexpr std::chrono::milliseconds kUnsyncedRetry{1000};

// Whether the ranks of `pod` are asked while a node is not ready: those on it, and one pod beside
// them. See plan/loss.h, Note [A node that is not ready].
bool is_witness(const plan::PodView& pod, const std::vector<plan::PodView>& pods) {
  const auto is_cut_off = [](const plan::PodView& one) {
    return one.node_state == plan::NodeState::kUnready;
  };
  if (is_cut_off(pod)) return true;
  if (std::none_of(pods.begin(), pods.end(), is_cut_off)) return false;
  const auto first = std::find_if(pods.begin(), pods.end(), [&](const plan::PodView& one) {
    return one.attempt == pod.attempt && one.phase == plan::PodPhase::kRunning && !one.deleting &&
           !is_cut_off(one);
  });
  return first != pods.end() && first->name == pod.name;
}

// How soon to plan again once a name has turned out to be taken.
constexpr std::chrono::milliseconds kTakenRetry{10};

// How long to wait for our own writes to come back. Only an API server restored from a backup,
// whose versions went back, keeps us waiting that long.
constexpr std::chrono::minutes kTrustOwnWrites{5};

kube::ObjectKey key_of(const api::TrainingJob& job) {
  return {job.meta.ns, job.meta.name};
}

// What the server refuses is told where people look: the message, the condition and one event.
void tell_refusal(const api::TrainingJob& job, const Refusal& refusal, plan::Plan& next,
                  api::Time now) {
  next.status.message = refusal.message;
  if (plan::is_true(next.status, plan::kScheduled)) return;
  plan::set_condition(
      next.status, {.type = plan::kScheduled, .reason = refusal.reason, .message = refusal.message},
      now);
  if (plan::has_reason(job.status, plan::kScheduled, refusal.reason)) return;
  next.events.push_back({.warning = true, .reason = refusal.reason, .message = refusal.message});
}

// What follows from a refused call. A server that says when to come again is taken at its word;
// any other failure goes to the queue's own back-off.
Result<Outcome> outcome_of(const common::Error& error,
                           const std::optional<std::chrono::seconds>& retry_after) {
  if (is_ending(error)) return Outcome::await_change();
  if (retry_after) return Outcome::requeue(std::max(*retry_after, std::chrono::seconds(1)));
  return error;
}

}  // namespace

Reconciler::Reconciler(kube::Client& client, ClusterView& view, ProgressPoller& progress,
                       Options options)
    : client_(client),
      view_(view),
      progress_(progress),
      queues_(client),
      gang_schedulers_(client),
      gangs_(client),
      options_(std::move(options)) {}

Result<Outcome> Reconciler::reconcile(const kube::ObjectKey& key) {
  // No decision before the namespace's stores are complete: half a view looks like deleted pods.
  if (!view_.has_synced(key.ns)) return Outcome::requeue(kUnsyncedRetry);
  const std::optional<api::TrainingJob> job = view_.job(key);
  if (!job) {  // deleted: owner references clean up
    forget(key);
    return end_groups_of(key);
  }
  if (!has_seen_own_writes(*job)) return Outcome::requeue(kStaleRetry);
  const plan::Observation seen = observe(*job);
  plan::Plan next = plan::plan(*job, seen, options_.settings, options_.now());
  ApplyOutcome applied = apply_in_order(client_, *job, next.actions);
  remember_created(key, applied.created_versions);
  if (seen.lacks_pod_group) gangs_.forget(key);  // it was made again
  // Now or never: what is there is not created again, whatever becomes of the status.
  emit(*job, explain_warnings(applied.warnings, job->meta.ns));
  if (!applied.taken_names.empty()) {
    // This plan's status does not know who has the name; the next one's does.
    view_.remember_taken(key, std::move(applied.taken_names));
    return Outcome::requeue(kTakenRetry);
  }
  if (!applied.result && is_refusal(applied.result.error()) && !is_ending(applied.result.error())) {
    tell_refusal(*job, explain_refusal(applied.result.error(), job->meta.ns), next, options_.now());
  }
  if (const std::optional<kube::ApiError> refused = write_if_changed(*job, next.status)) {
    return outcome_of(refused->error, refused->retry_after);
  }
  emit(*job, next.events);
  follow_progress(*job, seen);
  if (!applied.result) return outcome_of(applied.result.error(), applied.retry_after);
  return next.requeue_after ? Outcome::requeue(*next.requeue_after) : Outcome::await_change();
}

// What a queue holds of a job that is gone, it would hold for ever.
Result<Outcome> Reconciler::end_groups_of(const kube::ObjectKey& key) {
  api::TrainingJob gone;
  gone.meta.ns = key.ns;
  gone.meta.name = key.name;
  const std::vector<plan::Action> marks = plan::end_orphaned_groups(view_.observe(gone));
  const ApplyOutcome applied = apply_in_order(client_, gone, marks);
  if (!applied.result) return outcome_of(applied.result.error(), applied.retry_after);
  return Outcome::await_change();
}

bool Reconciler::has_seen_own_writes(const api::TrainingJob& job) const {
  const kube::MutexLock lock(mutex_);
  const auto found = written_.find(key_of(job));
  if (found == written_.end()) return true;
  const Written& written = found->second;
  if (options_.now() - written.at > kTrustOwnWrites) return true;
  if (kube::is_older(job.meta.resource_version, written.job_version)) return false;
  return std::all_of(written.child_versions.begin(), written.child_versions.end(),
                     [this, &job](const auto& child) {
                       return view_.has_seen(job.meta.ns, child.first, child.second);
                     });
}

void Reconciler::remember_created(const kube::ObjectKey& key,
                                  const std::map<ChildKind, std::string>& versions) {
  if (versions.empty()) return;
  const kube::MutexLock lock(mutex_);
  Written& written = written_[key];
  written.at = options_.now();
  for (const auto& [kind, version] : versions) written.child_versions[kind] = version;
}

plan::Observation Reconciler::observe(const api::TrainingJob& job) {
  plan::Observation seen = view_.observe(job);
  seen.queue_word = queues_.ask(job, options_.now());
  seen.gang_apis = gang_schedulers_.ask(job, options_.now());
  const GangWord gang = gangs_.ask(job, options_.now());
  seen.gang_word = gang.text;
  seen.lacks_pod_group = gang.is_missing;
  seen.pulses = progress_.pulses(key_of(job));
  seen.knows_stragglers = progress_.knows_stragglers(key_of(job));  // first: it only grows
  seen.straggler = progress_.straggler(key_of(job));
  const std::optional<common::JobProgress> progress = progress_.latest(key_of(job));
  if (!progress || progress->attempt != job.status.attempt) return seen;
  seen.strategy = progress->strategy;
  if (progress->step > 0) {
    seen.progress = plan::progress_status(*progress, job.status.progress, options_.now());
  }
  return seen;
}

void Reconciler::follow_progress(const api::TrainingJob& job, const plan::Observation& seen) {
  const bool asks_all = plan::asks_every_rank(job, progress_.idle(key_of(job)));
  const int64_t per_pod = job.status.ranks.per_pod;
  std::vector<ProgressTarget> targets;
  for (const plan::PodView& pod : seen.pods) {
    const bool is_ours = pod.attempt == job.status.attempt && pod.owner_uid == job.meta.uid;
    const bool answers = pod.phase == plan::PodPhase::kRunning && !pod.deleting &&
                         !pod.pod_ip.empty() && !job.spec.train.is_null();
    if (!is_ours || !answers) continue;
    const bool asks_pod = asks_all || is_witness(pod, seen.pods);
    for (int64_t rank = pod.rank; rank < pod.rank + per_pod; ++rank) {
      if (rank != 0 && !asks_pod) continue;
      targets.push_back({.rank = rank,
                         .host = pod.pod_ip,
                         .port = static_cast<int>(options_.settings.metrics_port),
                         .path = common::status_path(rank, per_pod),
                         .attempt = static_cast<int>(pod.attempt)});
    }
  }
  progress_.watch(key_of(job), targets);
}

void Reconciler::forget(const kube::ObjectKey& key) {
  progress_.forget(key);
  queues_.forget(key);
  gangs_.forget(key);
  const kube::MutexLock lock(mutex_);
  written_.erase(key);
}

std::optional<kube::ApiError> Reconciler::write_if_changed(const api::TrainingJob& job,
                                                           const api::TrainingJobStatus& status) {
  // As JSON: what the codec cuts must not look like a change at every reconcile.
  if (api::encode_status(status) == api::encode_status(job.status)) return std::nullopt;
  const kube::ApiResult<std::string> answer = write_status(client_, job, status);
  if (const auto* refused = std::get_if<kube::ApiError>(&answer)) return *refused;
  if (status.state != job.status.state) {
    log_.info("job", {{"job", kube::to_string(key_of(job))},
                      {"state", status.state},
                      {"attempt", status.attempt},
                      {"message", status.message}});
  }
  const kube::MutexLock lock(mutex_);
  Written& written = written_[key_of(job)];
  written.at = options_.now();
  written.job_version = std::get<std::string>(answer);
  return std::nullopt;
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

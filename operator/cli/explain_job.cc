#include "operator/cli/explain_job.h"

#include <algorithm>
#include <map>

#include "operator/api/codec.h"
#include "operator/plan/half_gang.h"
#include "operator/plan/names.h"
#include "operator/plan/pod_group.h"
#include "operator/plan/queue.h"
#include "operator/plan/status.h"

namespace lockstep::cli {

using nlohmann::json;

namespace {

// How long an operator has to look at a new job before its silence is strange.
constexpr std::chrono::seconds kFirstLook{15};

json member(const json& value, const char* name) {
  const auto found = value.is_object() ? value.find(name) : value.end();
  return found != value.end() ? *found : json();
}

std::string text(const json& value, const char* name) {
  const json found = member(value, name);
  return found.is_string() ? found.get<std::string>() : "";
}

std::string joined(const std::string& reason, const std::string& message) {
  return message.empty() ? reason : reason + ": " + message;
}

void read_containers(const json& statuses, PodFact& fact) {
  if (!statuses.is_array()) return;
  for (const json& status : statuses) {
    const json state = member(status, "state");
    const json waiting = member(state, "waiting");
    if (fact.reason.empty() && waiting.is_object()) {
      fact.reason = text(waiting, "reason");
      fact.trouble = joined(fact.reason, text(waiting, "message"));
    }
    const json ended = member(member(state, "terminated"), "exitCode");
    if (text(status, "name") == "trainer" && ended.is_number_integer()) {
      fact.exit_code = ended.get<int64_t>();
    }
  }
}

// "rank 3", "ranks 0, 1 and 4", "ranks 0, 1, 2 and 13 more"
std::string name_ranks(const std::vector<int64_t>& ranks) {
  constexpr std::size_t kMaxNamed = 3;
  if (ranks.size() == 1) return "rank " + std::to_string(ranks.front());
  std::string names = "ranks ";
  const std::size_t named = ranks.size() <= kMaxNamed + 1 ? ranks.size() - 1 : kMaxNamed;
  for (std::size_t i = 0; i < named; ++i) {
    if (i > 0) names.append(", ");
    names.append(std::to_string(ranks[i]));
  }
  if (ranks.size() - named == 1) return names.append(" and ").append(std::to_string(ranks.back()));
  return names.append(" and ").append(std::to_string(ranks.size() - named)).append(" more");
}

std::string remedy_for(const std::string& reason) {
  static const std::map<std::string, std::string> remedies = {
      {"Unschedulable",
       "make room: end or suspend other jobs, add nodes, or ask for less: spec.resources, "
       "spec.ranks, spec.template's nodeSelector and tolerations"},
      {"ImagePullBackOff", "check spec.image, and spec.imagePullSecrets for a private registry"},
      {"ErrImagePull", "check spec.image, and spec.imagePullSecrets for a private registry"},
      {"InvalidImageName", "correct spec.image"},
      {"CreateContainerConfigError", "create the ConfigMap or Secret that the pod names"},
      {"CreateContainerError", "check spec.command and the volumes"},
      {"RunContainerError", "check spec.command and the image"}};
  const auto found = remedies.find(reason);
  return found == remedies.end() ? "" : found->second;
}

void add_once(std::vector<std::string>& lines, const std::string& line) {
  if (!line.empty() && std::find(lines.begin(), lines.end(), line) == lines.end()) {
    lines.push_back(line);
  }
}

std::string logs_of(const api::TrainingJob& job) {
  return "lockstep logs " + job.meta.name + " -n " + job.meta.ns;
}

// What keeps pods of this attempt from starting, ranks with the same trouble in one line.
void add_obstacles(const api::TrainingJob& job, const std::vector<PodFact>& pods,
                   Explanation& out) {
  std::map<std::string, std::vector<int64_t>> by_trouble;
  for (const PodFact& pod : pods) {
    if (pod.attempt != job.status.attempt || pod.phase != "Pending" || pod.trouble.empty())
      continue;
    by_trouble[pod.trouble].push_back(pod.rank);
    add_once(out.todo, remedy_for(pod.reason));
  }
  for (const auto& [trouble, ranks] : by_trouble) {
    out.why.push_back(name_ranks(ranks) + ": " + trouble);
  }
}

// Half a gang holds nodes, or held them in earlier attempts (plan/half_gang.h).
void add_half_gang(const api::TrainingJob& job, const std::vector<PodFact>& pods,
                   Explanation& out) {
  const int64_t num_pods =
      job.status.ranks.desired / std::max<int64_t>(1, job.status.ranks.per_pod);
  const auto num_bound = std::count_if(pods.begin(), pods.end(), [&](const PodFact& pod) {
    return pod.attempt == job.status.attempt && !pod.node.empty();
  });
  const bool is_half = num_bound > 0 && num_bound < num_pods;
  if (is_half) {
    std::string line = std::to_string(num_bound).append(" of ").append(std::to_string(num_pods));
    line.append(" pods have nodes");
    if (const auto timeout = job.spec.scheduling.gang_timeout; timeout > timeout.zero()) {
      line.append(" and give them back if the others get none: nodes are held for ")
          .append(api::format_duration(timeout))
          .append(" at most (spec.scheduling.gangTimeoutSeconds)");
    }
    out.why.push_back(line);
  }
  if (job.status.gang_releases == 0) return;
  out.why.push_back(plan::count_releases(job.status.gang_releases) +
                    ", for the other pods got none in time");
  add_once(out.todo, remedy_for("Unschedulable"));
}

// A scheduler that knows gangs has not given nodes to this one (plan/pod_group.h).
void add_gang_wait(const api::TrainingJob& job, Explanation& out) {
  const api::TrainingJobStatus& status = job.status;
  if (!status.gang || !plan::has_reason(status, plan::kScheduled, plan::kGangWaits)) return;
  out.why.push_back(plan::find_condition(status, plan::kScheduled)->message);
  const std::string type =
      plan::pod_group_version(api::parse_gang_scheduler(status.gang->scheduler));
  out.todo.push_back("see what its scheduler says: kubectl describe podgroups." +
                     type.substr(0, type.find('/')) + " " + status.gang->pod_group + " -n " +
                     job.meta.ns);
}

void add_pause(const api::TrainingJob& job, api::Time now, Explanation& out) {
  const std::optional<api::Time>& end = job.status.restart_not_before;
  if (end && *end > now) {
    out.why.push_back("the next attempt begins in " + api::format_duration(*end - now));
  }
}

void add_failure(const api::TrainingJob& job, Explanation& out) {
  const std::optional<api::FirstFailure>& failure = job.status.first_failure;
  if (!failure) return;
  std::string line = plan::summarize(*failure);
  if (failure->step > 0) line.append("; its last step was ").append(std::to_string(failure->step));
  out.why.push_back(line);
  add_once(out.todo, failure->hint);
  if (!failure->pod.empty()) {
    out.todo.push_back("read its log: " + logs_of(job) + " --rank " +
                       std::to_string(failure->rank));
  }
}

Explanation explain_nobody(const api::TrainingJob& job, api::Time now) {
  if (!job.spec.managed_by.empty() && job.spec.managed_by != api::kOurController) {
    return {"left to another controller", {"spec.managedBy is " + job.spec.managed_by}, {}};
  }
  if (job.meta.creation_time && now - *job.meta.creation_time < kFirstLook) {
    return {"just created", {"no operator has looked at it yet"}, {}};
  }
  return {"not seen by any operator",
          {"no operator has written its status since it was created"},
          {"see whether one runs, and watches namespace " + job.meta.ns +
           ": kubectl get deployments -A -l app.kubernetes.io/name=lockstep"}};
}

Explanation explain_end(const api::TrainingJob& job) {
  if (plan::is_true(job.status, plan::kSucceeded)) {
    return {
        "succeeded", {job.status.message.empty() ? "all ranks finished" : job.status.message}, {}};
  }
  Explanation out{"failed", {}, {}};
  const api::Condition* failed = plan::find_condition(job.status, plan::kFailed);
  out.why.push_back(joined(failed->reason, failed->message));
  add_failure(job, out);
  out.todo.push_back("a finished job stays as it is: lockstep delete " + job.meta.name + " -n " +
                     job.meta.ns + ", then submit it again; it goes on from its newest checkpoint");
  return out;
}

Explanation explain_refused(const api::TrainingJob& job, const api::Condition& scheduled) {
  Explanation out{"its pods are refused", {joined(scheduled.reason, scheduled.message)}, {}};
  if (scheduled.reason == "NameTaken") {
    out.headline = "a name that it needs is taken";
    out.todo.push_back("delete the object that has it, or give the job another name");
  } else if (scheduled.reason == plan::kGangSchedulerMissing) {
    out.headline = "its gang scheduler is missing";
    out.todo.push_back("install it, or suspend the job and change spec.scheduling.gangScheduler");
  } else if (scheduled.message.find("exceeded quota") != std::string::npos) {
    out.todo.push_back("raise the quota of namespace " + job.meta.ns +
                       ", end other jobs there, or lower spec.resources or spec.ranks");
  } else if (scheduled.reason == "PodSecurity") {
    out.todo.push_back(
        "remove what the level forbids from spec.template, or ask for another level");
  }
  out.todo.push_back("nothing else: the operator goes on trying, with growing pauses");
  return out;
}

Explanation explain_queue(const api::TrainingJob& job) {
  const std::string queue = job.status.queue ? job.status.queue->name : plan::queue_of(job);
  return {"waiting in a queue",
          {plan::find_condition(job.status, plan::kScheduled)->message},
          {"see what is before it: kubectl get workloads -n " + job.meta.ns,
           "see whether the queue exists and takes jobs: kubectl get localqueue " + queue + " -n " +
               job.meta.ns}};
}

Explanation explain_start(const api::TrainingJob& job, const std::vector<PodFact>& pods,
                          api::Time now) {
  const api::TrainingJobStatus& status = job.status;
  Explanation out{"starting", {}, {}};
  if (plan::has_reason(status, plan::kRunning, plan::kRestartingReason)) {
    out.headline = "restarting";
    add_failure(job, out);
    out.why.push_back(
        "restarts charged since the last progress: " + std::to_string(status.budget.used) + " of " +
        std::to_string(job.spec.failure_policy.max_restarts));
  } else if (!plan::is_true(status, plan::kScheduled)) {
    out.headline = "waiting for nodes";
  }
  add_gang_wait(job, out);
  add_half_gang(job, pods, out);
  add_pause(job, now, out);
  add_obstacles(job, pods, out);
  if (out.why.empty() && !status.message.empty()) out.why.push_back(status.message);
  return out;
}

Explanation explain_running(const api::TrainingJob& job) {
  const api::TrainingJobStatus& status = job.status;
  Explanation out{"running", {}, {}};
  if (const std::optional<api::ProgressStatus>& progress = status.progress) {
    out.why.push_back("step " + std::to_string(progress->step) + " of " +
                      std::to_string(progress->total_steps));
  }
  if (plan::is_true(status, plan::kStalled)) {
    out.headline = "stalled";
    out.why.push_back(plan::find_condition(status, plan::kStalled)->message);
    out.todo.push_back("read what the ranks say: " + logs_of(job) + " --all-ranks");
  }
  if (status.straggler) {
    out.headline = "running, and kept waiting by one rank";
    out.why.push_back(plan::summarize(*status.straggler));
    out.todo.push_back("look at that node: what else runs there, clocks, disks, network");
  }
  return out;
}

}  // namespace

std::optional<PodFact> read_pod(const json& pod) {
  const json metadata = member(pod, "metadata");
  const std::string job = text(member(metadata, "labels"), plan::kJobNameLabel);
  const std::string name = text(metadata, "name");
  const std::optional<plan::PodIdentity> identity = plan::parse_pod_name(job, name);
  if (!identity) return std::nullopt;
  const json status = member(pod, "status");
  PodFact fact{.name = name,
               .attempt = identity->attempt,
               .rank = identity->rank,
               .phase = text(status, "phase"),
               .node = text(member(pod, "spec"), "nodeName"),
               .is_deleting = metadata.contains("deletionTimestamp")};
  if (fact.phase.empty()) fact.phase = "Pending";
  const json conditions = member(status, "conditions");
  for (const json& condition : conditions.is_array() ? conditions : json::array()) {
    if (text(condition, "type") != "PodScheduled" || text(condition, "status") != "False") continue;
    fact.reason = text(condition, "reason");
    fact.trouble = joined(fact.reason, text(condition, "message"));
  }
  read_containers(member(status, "initContainerStatuses"), fact);
  read_containers(member(status, "containerStatuses"), fact);
  return fact;
}

std::vector<PodFact> pods_of(const api::TrainingJob& job, const json& pods) {
  std::vector<PodFact> facts;
  for (const json& pod : pods.is_array() ? pods : json::array()) {
    const json labels = member(member(pod, "metadata"), "labels");
    if (text(labels, plan::kJobNameLabel) != job.meta.name) continue;
    if (std::optional<PodFact> fact = read_pod(pod)) facts.push_back(*std::move(fact));
  }
  std::sort(facts.begin(), facts.end(), [](const PodFact& a, const PodFact& b) {
    return std::pair(a.attempt, a.rank) < std::pair(b.attempt, b.rank);
  });
  return facts;
}

Explanation explain_job(const api::TrainingJob& job, const std::vector<PodFact>& pods,
                        api::Time now) {
  const api::TrainingJobStatus& status = job.status;
  if (job.meta.deletion_time) {
    return {"being deleted", {std::to_string(pods.size()).append(" pods are left")}, {}};
  }
  if (status.conditions.empty()) return explain_nobody(job, now);
  if (plan::is_finished(status)) return explain_end(job);
  const api::Condition* accepted = plan::find_condition(status, plan::kAccepted);
  if (accepted != nullptr && accepted->status == api::ConditionStatus::kFalse) {
    return {"not accepted",
            {accepted->message},
            {"correct the fields named above: kubectl edit tjob " + job.meta.name + " -n " +
             job.meta.ns}};
  }
  if (plan::is_true(status, plan::kSuspended)) {
    return {"suspended",
            {"spec.suspend is true, and no rank runs"},
            {"lockstep resume " + job.meta.name + " -n " + job.meta.ns}};
  }
  if (plan::is_stopping(status)) {
    return {
        "stopping in good order", {"the ranks save a checkpoint, then end", status.message}, {}};
  }
  const api::Condition* scheduled = plan::find_condition(status, plan::kScheduled);
  const bool is_refused =
      scheduled != nullptr && scheduled->status == api::ConditionStatus::kFalse &&
      !scheduled->message.empty() && scheduled->reason != plan::kGangReleased &&
      scheduled->reason != plan::kQueuedReason && scheduled->reason != plan::kGangWaits;
  const bool is_taken = plan::has_reason(status, plan::kScheduled, "NameTaken");
  if (is_refused || is_taken) return explain_refused(job, *scheduled);
  if (plan::has_reason(status, plan::kScheduled, plan::kQueuedReason)) return explain_queue(job);
  if (!plan::is_true(status, plan::kRunning)) return explain_start(job, pods, now);
  return explain_running(job);
}

}  // namespace lockstep::cli

#include "tests/operator/plan/random_state.h"

#include <chrono>
#include <iterator>
#include <set>
#include <string>
#include <vector>

#include "operator/api/kueue_names.h"
#include "operator/plan/names.h"
#include "operator/plan/nodes.h"
#include "operator/plan/render.h"
#include "operator/plan/status.h"

namespace lockstep::plan {
namespace {

using std::chrono::seconds;

constexpr int64_t kExitCodes[] = {0, 1, 7, 65, 66, 70, 77, 78, 80, 82, 83, 83, 85, 85, 137, 143};

void randomize(PodView& pod, Dice& dice, api::Time now) {
  pod.phase = dice.pick({PodPhase::kPending, PodPhase::kRunning, PodPhase::kRunning,
                         PodPhase::kSucceeded, PodPhase::kFailed, PodPhase::kUnknown});
  if (pod.phase == PodPhase::kFailed || pod.phase == PodPhase::kSucceeded || dice.one_in(20)) {
    if (!dice.one_in(5)) pod.exit = random_exit(dice, now);
  }
  if (dice.one_in(2)) pod.node = dice.pick<std::string>({"node", "other", "\xff"});
  if (!pod.node.empty() && dice.one_in(2)) pod.bound_at = now - seconds(dice.below(900) - 10);
  if (dice.one_in(4)) {
    pod.node_state = dice.pick({NodeState::kReady, NodeState::kUnready, NodeState::kGone});
  }
  pod.ready = dice.one_in(2);
  pod.deleting = dice.one_in(4);
  if (pod.deleting && dice.one_in(2)) {
    pod.deletion_deadline = now + seconds(dice.below(400) - 200);
  }
  if (dice.one_in(10)) pod.reason = dice.pick<std::string>({"Evicted", "OutOfcpu", "\xff", "x"});
  if (dice.one_in(10)) pod.waiting_reason = "ImagePullBackOff";
  if (dice.one_in(3)) {
    pod.pod_group = dice.pick<std::string>({"demo-job-uid-0", "demo-job-uid-1", "other"});
    pod.is_held = dice.one_in(2);
    pod.is_gated = pod.node.empty() && dice.one_in(2);
    if (dice.one_in(2)) pod.created_at = now - seconds(dice.below(120));
    pod.ends_group = dice.one_in(4);
  }
  if (dice.one_in(10)) pod.rank = dice.below(6) - 2;  // labels can be edited
  if (dice.one_in(10)) pod.attempt = dice.below(6) - 2;
}

api::TrainingJob random_job(Dice& dice) {
  const int64_t ranks = dice.pick<int64_t>({1, 2, 2, 3, 4});
  api::TrainingJob job = dice.one_in(8) ? training_job(ranks) : command_job(ranks);
  api::TrainingJobSpec& spec = job.spec;
  if (ranks % 2 == 0 && dice.one_in(3)) spec.ranks_per_pod = 2;
  spec.failure_policy.max_restarts = dice.below(4);
  spec.suspend = dice.one_in(5);
  if (dice.one_in(20)) spec.managed_by = dice.pick<std::string>({"lockstep.dev/operator", "x/y"});
  if (dice.one_in(6)) spec.active_deadline = seconds(dice.below(3000));
  if (dice.one_in(3)) spec.ttl_after_finished = seconds(dice.below(2000));
  spec.failure_policy.stall_timeout = seconds(dice.pick<int64_t>({0, 10, 900}));
  spec.scheduling.gang_timeout = seconds(dice.pick<int64_t>({0, 10, 300}));
  for (int64_t i = dice.below(4); i > 0; --i) {
    api::FailureRule rule;
    if (dice.one_in(2)) {
      rule.exit_codes = {kExitCodes[dice.below(std::size(kExitCodes))]};
    } else {
      rule.reasons = {dice.pick<std::string>({"OOMKilled", "PodDeleted", "Stalled", "NodeLost"})};
    }
    rule.action = dice.pick(
        {api::RuleAction::kRestart, api::RuleAction::kRestartFree, api::RuleAction::kFail});
    spec.failure_policy.rules.push_back(rule);
  }
  spec.clean_pod_policy = dice.pick(
      {api::CleanPodPolicy::kRunning, api::CleanPodPolicy::kAll, api::CleanPodPolicy::kNone});
  if (dice.one_in(40)) spec.ranks = dice.pick<int64_t>({-1, 0});
  if (dice.one_in(40)) spec.ranks_per_pod = dice.pick<int64_t>({-1, 0, 3});
  if (dice.one_in(4000)) spec.ranks = dice.pick<int64_t>({5000, int64_t{1} << 60});
  if (dice.one_in(40)) spec.train = dice.pick<nlohmann::json>({nullptr, 3, "x", {{"steps", "y"}}});
  if (dice.one_in(40)) spec.inputs = dice.pick<nlohmann::json>({3, {1, 2}, {{{"name", 5}}}});
  if (dice.one_in(40)) spec.output = dice.pick<nlohmann::json>({3, "x", nlohmann::json::array()});
  if (dice.one_in(40)) spec.command.clear();
  if (dice.one_in(2)) spec.pod_template = random_template(dice);
  if (dice.one_in(40)) spec.pod_template = {{"spec", {{"restartPolicy", "Always"}}}};
  if (dice.one_in(40))
    job.meta.name = dice.pick<std::string>({"", "Demo", "-", std::string(80, 'a')});
  if (dice.one_in(3)) job.meta.labels[api::kQueueLabel] = dice.pick<std::string>({"team", "a"});
  spec.scheduling.gang_scheduler =
      dice.pick({api::GangScheduler::kAuto, api::GangScheduler::kNone, api::GangScheduler::kVolcano,
                 api::GangScheduler::kNative});
  if (dice.one_in(20)) job.meta.deletion_time = kStart;
  job.meta.generation = dice.below(3);
  return job;
}

void randomize_conditions(api::TrainingJobStatus& status, Dice& dice) {
  const std::vector<const char*> types = {kAccepted, kScheduled, kRunning, kSuspended,
                                          kStalled,  kSucceeded, kFailed};
  for (const char* type : types) {
    const bool is_rare = type == kSucceeded || type == kFailed || type == kSuspended;
    if (dice.one_in(is_rare ? 2 : 4)) continue;
    status.observed_generation = dice.below(3);
    set_condition(status,
                  {.type = type,
                   .value = is_rare ? dice.one_in(6) : dice.one_in(2),
                   .reason = dice.pick<std::string>({"", kStartingReason, kRestartingReason,
                                                     kSuspendingReason, kScalingReason, "Valid",
                                                     "DeadlineExceeded"})},
                  kStart - seconds(dice.below(1000)));
  }
}

void randomize_status(api::TrainingJob& job, Dice& dice) {
  api::TrainingJobStatus& status = job.status;
  if (dice.one_in(8)) return;  // a job that nobody has looked at
  status.attempt = dice.below(3);
  status.restarts = dice.below(5);
  status.ranks.desired = dice.one_in(4) ? dice.below(6) - 1 : job.spec.ranks;
  if (dice.one_in(1000)) status.ranks.desired = int64_t{1} << 62;
  status.ranks.per_pod = dice.one_in(8) ? dice.below(6) - 1 : job.spec.ranks_per_pod;
  if (!dice.one_in(6)) status.start_time = kStart - seconds(1000);
  if (dice.one_in(4)) status.restart_not_before = kStart + seconds(dice.below(20) - 10);
  if (dice.one_in(4))
    status.first_failure = api::FirstFailure{.rank = 1, .pod = "demo-0-1", .reason = "x"};
  if (dice.one_in(3)) {
    status.queue = api::QueueStatus{
        "team", dice.pick<std::string>({"demo-job-uid-0", "demo-job-uid-1", "demo-job-uid-2"})};
  }
  if (dice.one_in(3)) {
    status.gang = api::GangStatus{
        .scheduler = dice.pick<std::string>({"volcano", "native", "native", "x"}),
        .pod_group = dice.pick<std::string>({"demo-job-uid-0", "demo-job-uid-1", ""}),
        .pods = dice.one_in(3) ? dice.below(4) : status.ranks.desired};
  }
  if (dice.one_in(4)) status.gang_releases = dice.below(9);
  if (dice.one_in(3)) status.progress = api::ProgressStatus{.step = 5, .total_steps = 9};
  status.budget = {.used = dice.below(5), .checkpoint_step = dice.below(9)};
  if (status.progress && dice.one_in(2)) status.progress->last_checkpoint_step = dice.below(9);
  if (dice.one_in(2)) status.completion_time = kStart - seconds(dice.below(1000));
  if (dice.one_in(4)) status.straggler = api::Straggler{.rank = dice.below(6) - 1, .ratio = "2"};
  for (int64_t i = dice.below(4); i > 0; --i) {
    count_node_failure(status, dice.pick<std::string>({"node", "other", "third"}));
  }
  if (dice.one_in(2)) {
    status.goodput = api::Goodput{
        .phase = dice.pick<std::string>({"", "Queued", "Starting", "Productive", "Down", "x"}),
        .since = kStart - seconds(dice.below(500) - 100),
        .productive_seconds = dice.below(100),
        .attempt = dice.below(3),
        .first_step = dice.below(9),
        .attempt_seconds = dice.below(200)};
  }
  randomize_conditions(status, dice);
}

}  // namespace

nlohmann::json random_template(Dice& dice) {
  const std::string kind = dice.pick<std::string>({"", "a", "b", "c"});
  if (kind.empty()) return nlohmann::json::object();
  return {{"spec", {{"nodeSelector", {{"kind", kind}}}}}};
}

std::string kind_of(const nlohmann::json& pod) {
  if (!pod.is_object()) return "";
  const nlohmann::json spec = pod.value("spec", nlohmann::json::object());
  return spec.value("nodeSelector", nlohmann::json::object()).value("kind", "");
}

ContainerExit random_exit(Dice& dice, api::Time now) {
  const auto code = kExitCodes[dice.below(std::size(kExitCodes))];
  return {
      .exit_code = dice.one_in(20) ? dice.below(1 << 20) - (1 << 19) : code,
      .reason = dice.one_in(8) ? "OOMKilled" : "Error",
      .message = dice.pick<std::string>({"", "text\n", "\xff\xfe", "{\"rank\":0}", "[", "\n\n"}),
      .finished_at = dice.one_in(6) ? api::Time{} : now - seconds(dice.below(200))};
}

ModelCluster random_state(uint64_t seed) {
  Dice dice(seed);
  ModelCluster cluster(random_job(dice));
  randomize_status(cluster.job, dice);
  std::set<PodIdentity> identities;
  const int64_t num_pods = dice.below(8);
  for (int64_t i = 0; i < num_pods; ++i) {
    const int64_t attempt = dice.one_in(3) ? dice.below(4) : cluster.job.status.attempt;
    const PodIdentity identity = {.attempt = attempt, .rank = dice.below(5)};
    if (!identities.insert(identity).second) continue;
    const std::string owner = dice.one_in(12) ? dice.pick<std::string>({"", "other"}) : "job-uid";
    PodView& pod = cluster.add_pod(identity.attempt, identity.rank, owner);
    randomize(pod, dice, cluster.now);
    if (dice.one_in(30)) {
      pod.name = dice.pick<std::string>({"demo-x-1", "demo", "other-0-0", ""}) + std::to_string(i);
    }
  }
  const auto owner = [&] {
    return dice.one_in(10) ? std::string("other") : std::string("job-uid");
  };
  for (int64_t attempt = 0; attempt < 4; ++attempt) {
    if (dice.one_in(2)) continue;
    cluster.seen.config_maps.push_back({.name = config_map_name(cluster.job.meta.name, attempt),
                                        .uid = std::string("c").append(std::to_string(attempt)),
                                        .owner_uid = owner(),
                                        .deleting = dice.one_in(8)});
    std::string& kept = cluster.seen.config_maps.back().pod_template;
    if (attempt > cluster.job.status.attempt) {  // made for it, or it would be given up at once
      kept = template_text(cluster.job.spec.pod_template);
    } else if (dice.one_in(2)) {
      kept = template_text(random_template(dice));
    } else if (dice.one_in(20)) {
      kept = dice.pick<std::string>({"3", "{", "\xff"});
    }
  }
  if (dice.one_in(2)) {
    cluster.seen.services.push_back({.name = cluster.job.meta.name,
                                     .uid = "s",
                                     .owner_uid = owner(),
                                     .deleting = dice.one_in(8)});
  }
  if (dice.one_in(3)) {
    cluster.seen.progress =
        api::ProgressStatus{.step = 7, .total_steps = 9, .last_update_time = kStart};
    if (dice.one_in(2)) cluster.seen.progress->last_checkpoint_step = dice.below(9);
  }
  for (int64_t rank = dice.below(8); rank > 0; --rank) {
    Pulse pulse = {.rank = rank - 2, .step = dice.below(9)};
    if (dice.one_in(2)) pulse.age = seconds(dice.below(2000) - 10);
    cluster.seen.pulses.push_back(pulse);
  }
  cluster.seen.gang_apis = {.is_known = !dice.one_in(8),
                            .coscheduling = dice.one_in(2),
                            .volcano = dice.one_in(2),
                            .native = dice.one_in(2)};
  cluster.seen.lacks_pod_group = dice.one_in(10);
  if (dice.one_in(4)) cluster.seen.straggler = Lag{.rank = dice.below(6) - 1, .ratio = 2};
  return cluster;
}

}  // namespace lockstep::plan

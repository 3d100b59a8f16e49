// Properties of plan() over random states: some that a cluster can be in, some that nobody should
// ever see. Seeds are fixed; a failure names its own.
#include <algorithm>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include <gtest/gtest.h>

#include "operator/api/codec.h"
#include "operator/plan/gang.h"
#include "operator/plan/names.h"
#include "operator/plan/plan.h"
#include "operator/plan/status.h"
#include "tests/operator/plan/model_cluster.h"
#include "tests/operator/plan/pod_group_faults.h"
#include "tests/operator/plan/random_state.h"
#include "tests/support/instrumented.h"

namespace lockstep::plan {
namespace {

using std::chrono::seconds;

template <typename Children>
const auto* find_by_name(const Children& children, const std::string& name) {
  const auto found = std::find_if(children.begin(), children.end(),
                                  [&](const auto& child) { return child.name == name; });
  return found == children.end() ? nullptr : &*found;
}

// The template that pods of the next attempt to be made go by: what the attempt's ConfigMap keeps,
// or what the spec says.
std::string expected_kind(const ModelCluster& before) {
  const std::string name = config_map_name(before.job.meta.name, before.job.status.attempt);
  const ChildView* kept = find_by_name(before.seen.config_maps, name);
  if (kept == nullptr) return kind_of(before.job.spec.pod_template);
  const auto parsed = nlohmann::json::parse(kept->pod_template, nullptr, false);
  return parsed.is_object() ? kind_of(parsed) : "";
}

// Empty if the action is allowed in this state, else what is wrong with it.
std::string fault_of(const Action& action, const ModelCluster& before) {
  const Observation& seen = before.seen;
  if (const auto* doomed = std::get_if<DeletePod>(&action)) {
    const PodView* pod = find_by_name(seen.pods, doomed->name);
    if (pod == nullptr || pod->uid != doomed->uid) return "deletes a pod that is not there";
    if (pod->owner_uid != before.job.meta.uid) return "deletes another owner's pod";
    const bool is_forced = doomed->grace_seconds == 0;
    if (pod->deleting && !is_forced) return "deletes a pod in deletion";
    if (doomed->grace_seconds < 0) return "gives a negative grace";
    if (is_forced && pod->node_state != NodeState::kGone) return "forces a deletion";
    return "";
  }
  if (const auto* mark = std::get_if<EndPodGroup>(&action)) return fault_of_mark(*mark, before);
  if (const auto* end = std::get_if<DeleteJob>(&action)) {
    const auto& ttl = before.job.spec.ttl_after_finished;
    if (end->uid != before.job.meta.uid) return "deletes another job";
    if (!is_finished(before.job.status) || !ttl) return "deletes a job that is to stay";
    return before.now >= *before.job.status.completion_time + *ttl ? "" : "deletes a job too soon";
  }
  if (const auto* old = std::get_if<DeleteConfigMap>(&action)) {
    const ChildView* child = find_by_name(seen.config_maps, old->name);
    if (child == nullptr || child->uid != old->uid) return "deletes a map that is not there";
    return child->owner_uid == before.job.meta.uid ? "" : "deletes another owner's map";
  }
  if (std::holds_alternative<DeletePodGroup>(action)) return "";  // fault_of_gang()
  if (is_finished(before.job.status)) return "creates after the end";
  if (before.job.meta.deletion_time) return "creates for a deleted job";
  if (before.job.spec.suspend) return "creates for a suspended job";
  if (const auto* pod = std::get_if<CreatePod>(&action)) {
    if (kind_of(pod->body) != expected_kind(before)) return "mixes two templates in an attempt";
    return find_by_name(seen.pods, pod->name) == nullptr ? "" : "creates a pod that exists";
  }
  if (const auto* service = std::get_if<CreateService>(&action)) {
    return find_by_name(seen.services, service->name) == nullptr ? "" : "creates a second service";
  }
  if (std::holds_alternative<CreatePodGroup>(action)) return "";
  const auto& map = std::get<CreateConfigMap>(action);
  return find_by_name(seen.config_maps, map.name) == nullptr ? "" : "creates a second map";
}

int64_t sum_of(const api::Goodput& goodput) {
  return goodput.queued_seconds + goodput.scheduling_seconds + goodput.starting_seconds +
         goodput.productive_seconds + goodput.lost_seconds + goodput.down_seconds +
         goodput.suspended_seconds;
}

// Time is counted once: the sums grow by what `since` grows, or not at all in an unknown phase.
std::string fault_of_goodput(const api::TrainingJobStatus& next, const ModelCluster& before) {
  if (!next.goodput || !before.job.status.goodput) return "";
  const api::Goodput& old = *before.job.status.goodput;
  const int64_t grown = sum_of(*next.goodput) - sum_of(old);
  const int64_t passed = (next.goodput->since - old.since).count();
  const bool is_counted = !old.phase.empty() && old.phase != "x";
  if (grown != (is_counted ? passed : 0)) return "counts time twice or not at all";
  if (next.goodput->since > std::max(old.since, before.now)) return "counts time to come";
  if (next.goodput->productive_seconds < 0 || next.goodput->lost_seconds < 0) {
    return "loses time that was not there";
  }
  return next.goodput->lost_steps < old.lost_steps ? "finds lost steps again" : "";
}

// A gang gives its nodes back only if it holds some, lacks others, and never was whole; nobody
// pays.
std::string fault_of_release(const api::TrainingJobStatus& next, const ModelCluster& before) {
  const api::TrainingJobStatus& old = before.job.status;
  if (next.gang_releases <= old.gang_releases) return "";
  if (next.attempt != old.attempt + 1) return "gives nodes back without an attempt";
  if (next.restarts != old.restarts) return "charges a half gang";
  if (is_true(old, kScheduled)) return "gives back the nodes of a gang that was whole";
  const bool divides = old.ranks.per_pod >= 1 && old.ranks.desired % old.ranks.per_pod == 0;
  const int64_t per_pod = divides ? old.ranks.per_pod : 1;
  int64_t num_bound = 0;
  for (const PodView& pod : before.seen.pods) {
    const auto identity = parse_pod_name(before.job.meta.name, pod.name);
    const bool is_current = identity && identity->attempt == old.attempt &&
                            identity->rank < old.ranks.desired && identity->rank % per_pod == 0 &&
                            pod.owner_uid == before.job.meta.uid;
    if (is_current && (!pod.node.empty() || pod.phase != PodPhase::kPending)) ++num_bound;
  }
  if (num_bound == 0) return "gives back nodes that it has not";
  return num_bound * per_pod < old.ranks.desired ? "" : "gives back the nodes of a whole gang";
}

// Empty if `next` keeps the invariants of plan.h, else what is wrong with it.
std::string fault_of(const Plan& next, const ModelCluster& before) {
  const api::TrainingJobStatus& old = before.job.status;
  const bool begins =
      next.status.attempt != old.attempt || next.status.start_time != old.start_time;
  if (begins && !next.actions.empty()) return "begins an attempt and touches objects";
  if (next.status.attempt < old.attempt) return "takes an attempt back";
  if (next.status.restarts < old.restarts) return "takes a restart back";
  if (next.status.restarts > old.restarts) {
    if (next.status.restarts != old.restarts + 1) return "charges two restarts at once";
    if (next.status.budget.used > before.job.spec.failure_policy.max_restarts) {
      return "exceeds the restart budget";
    }
    if (next.status.attempt != old.attempt + 1) return "charges a restart without an attempt";
  }
  const bool is_charged = next.status.restarts > old.restarts;
  if (!is_charged && !(next.status.budget == old.budget)) return "changes the budget for nothing";
  if (is_charged && next.status.budget.used <= old.budget.used &&
      next.status.budget.checkpoint_step <= old.budget.checkpoint_step) {
    return "refills the budget without a newer checkpoint";
  }
  const api::TrainingJobSpec& spec = before.job.spec;
  const bool is_ours = spec.managed_by.empty() || spec.managed_by == api::kOurController;
  if (!is_ours && !(next.actions.empty() && next.status == old)) return "takes another's job";
  const std::string misaccounted = fault_of_goodput(next.status, before);
  if (!misaccounted.empty()) return misaccounted;
  const std::string misreleased = fault_of_release(next.status, before);
  if (!misreleased.empty()) return misreleased;
  if (is_finished(old) && !(next.status == old)) return "changes a finished job";
  if (next.requeue_after && *next.requeue_after < seconds(1)) return "requeues in a hot loop";
  for (const Action& action : next.actions) {
    const std::string fault = fault_of(action, before);
    if (!fault.empty()) return fault;
  }
  return fault_of_gang(next, before);
}

// The end of a pod that is forced is news at once; of one that never had a node, where its end is
// waited for.
bool has_news(const Plan& next, const ModelCluster& before) {
  return std::any_of(next.actions.begin(), next.actions.end(), [&](const Action& action) {
    const auto* doomed = std::get_if<DeletePod>(&action);
    if (doomed == nullptr || doomed->grace_seconds == 0) return doomed != nullptr;
    const PodView& pod = *find_by_name(before.seen.pods, doomed->name);
    const bool counts = is_stopping(next.status) || counts_in_group(pod, next.status);
    return counts && !has_node(pod);
  });
}

// What is wrong after the actions of `next` were applied at the same time, if anything.
std::string fault_after(const Plan& next, ModelCluster cluster) {
  const bool is_news = has_news(next, cluster) || ends_gang(next);
  cluster.apply(next);
  if (cluster.job.meta.deletion_time) return "";  // by the end of its time to live
  if (is_news) return fault_of(cluster.decide(), cluster);
  if (!next.actions.empty()) {
    const Plan again = cluster.decide();
    // Groups end by the status that is written: a round later than what it decided.
    if (!only_ends_groups(again)) return "is not idempotent in its actions";
    if (!(again.status == next.status)) {
      return "is not idempotent in its status: " + api::encode_status(next.status).dump() +
             " then " + api::encode_status(again.status).dump();
    }
    return "";
  }
  for (int round = 0; round < 4; ++round) {
    const Plan again = cluster.decide();
    const std::string fault = fault_of(again, cluster);
    if (!fault.empty()) return fault + " (later round)";
    if (!again.actions.empty() || again.status == cluster.job.status) return "";
    cluster.apply(again);
  }
  return "never settles";
}

TEST(PlanPropertyTest, EveryPlanOfARandomStateKeepsTheInvariantsAndIsIdempotent) {
  constexpr int64_t kNumStates = 100000 / kWalkStride;
  int64_t num_creating = 0, num_deleting = 0, num_beginning = 0, num_finishing = 0,
          num_releasing = 0;
  for (uint64_t seed = 0; seed < uint64_t{kNumStates}; ++seed) {
    ModelCluster cluster = random_state(seed);
    Plan next;
    ASSERT_NO_THROW(next = cluster.decide()) << "seed " << seed;
    ASSERT_EQ(fault_of(next, cluster), "") << "seed " << seed;
    ASSERT_EQ(fault_after(next, cluster), "") << "seed " << seed;
    for (const Action& action : next.actions) {
      num_creating += std::holds_alternative<CreatePod>(action) ? 1 : 0;
      num_deleting += std::holds_alternative<DeletePod>(action) ? 1 : 0;
    }
    num_beginning += next.status.attempt != cluster.job.status.attempt ? 1 : 0;
    num_finishing += is_finished(next.status) && !is_finished(cluster.job.status) ? 1 : 0;
    num_releasing += next.status.gang_releases > cluster.job.status.gang_releases ? 1 : 0;
    Dice dice(seed);
    if (seed % 10 == 0 && !cluster.seen.pods.empty()) {
      const auto first = cluster.seen.pods.begin();
      std::rotate(first, first + dice.below(static_cast<int64_t>(cluster.seen.pods.size())),
                  cluster.seen.pods.end());
      ASSERT_EQ(cluster.decide().status, next.status) << "order of pods, seed " << seed;
      ASSERT_EQ(cluster.decide().actions.size(), next.actions.size()) << "seed " << seed;
    }
  }
  for (const int64_t count : {num_creating, num_deleting, num_beginning, num_finishing}) {
    EXPECT_GT(count, kNumStates / 200);  // all are met often, or the states prove little
  }
  EXPECT_GT(num_releasing, kNumStates / 1000);
}

// One second in the life of a cluster: pods get nodes, run, end, vanish; the user changes his mind.
class World {
 public:
  explicit World(uint64_t seed) : dice_(seed), cluster_(first_job()) {
    cluster_.seen.gang_apis.native = dice_.one_in(2);
  }

  // A second with faults; the operator may die between any two writes.
  std::string disturb() {
    cluster_.now += seconds(1 + dice_.below(4));
    for (PodView& pod : cluster_.seen.pods) disturb(pod);
    if (dice_.one_in(12)) remove_one();
    change_pulses();
    if (dice_.one_in(15)) change_spec();
    if (dice_.one_in(25)) cluster_.add_pod(cluster_.job.status.attempt + 1, 0, "somebody");
    kubelet();
    return reconcile(dice_.one_in(4));
  }

  // A second without: whatever was started goes well.
  std::string go_well() {
    cluster_.now += seconds(5);
    cluster_.job.spec.suspend = false;
    cluster_.seen.pulses.clear();
    std::erase_if(cluster_.seen.pods,
                  [](const PodView& pod) { return pod.owner_uid == "somebody"; });
    for (PodView& pod : cluster_.seen.pods) {
      if (pod.phase == PodPhase::kRunning && dice_.one_in(3)) pod.phase = PodPhase::kSucceeded;
      if (pod.phase == PodPhase::kPending) start(pod);
    }
    kubelet();
    return reconcile(false);
  }

  bool is_over() const { return is_finished(cluster_.job.status); }
  const ModelCluster& cluster() const { return cluster_; }

 private:
  api::TrainingJob first_job() {
    const int64_t ranks = dice_.pick<int64_t>({1, 2, 4});
    api::TrainingJob job = dice_.one_in(8) ? training_job(ranks) : command_job(ranks);
    if (ranks > 1 && dice_.one_in(3)) job.spec.ranks_per_pod = 2;
    job.spec.failure_policy.max_restarts = dice_.below(4);
    job.spec.failure_policy.stall_timeout = seconds(30);
    job.spec.scheduling.gang_timeout = seconds(dice_.pick<int64_t>({3, 300}));
    if (dice_.one_in(4)) job.spec.active_deadline = seconds(60 + dice_.below(600));
    if (dice_.one_in(4)) {
      job.spec.failure_policy.rules = {
          {.exit_codes = {1, 137},
           .reasons = {},
           .action = dice_.pick({api::RuleAction::kRestartFree, api::RuleAction::kFail})}};
    }
    return job;
  }

  void start(PodView& pod) {
    pod.node = "node";
    pod.bound_at = cluster_.now;
    pod.phase = PodPhase::kRunning;
  }

  void disturb(PodView& pod) {
    if (pod.phase == PodPhase::kPending && dice_.one_in(2)) start(pod);
    if (pod.phase == PodPhase::kRunning && dice_.one_in(15)) {
      pod.exit = random_exit(dice_, cluster_.now);
      pod.phase = pod.exit->exit_code == 0 ? PodPhase::kSucceeded : PodPhase::kFailed;
    }
    if (!pod.deleting && dice_.one_in(40)) {  // an eviction
      pod.deleting = true;
      pod.deletion_deadline = cluster_.now + seconds(30);
    }
  }

  // Ranks answer, or do not, and make a checkpoint now and then.
  void change_pulses() {
    cluster_.seen.pulses.clear();
    for (int64_t rank = 0; rank < cluster_.job.status.ranks.desired; ++rank) {
      Pulse pulse = {.rank = rank, .step = step_};
      if (!dice_.one_in(4)) pulse.age = seconds(dice_.one_in(3) ? 40 : 2);
      cluster_.seen.pulses.push_back(pulse);
    }
    step_ += dice_.below(3);
    if (dice_.one_in(4)) checkpoint_ = step_;
    cluster_.seen.progress = api::ProgressStatus{.step = step_,
                                                 .total_steps = 1000,
                                                 .last_checkpoint_step = checkpoint_,
                                                 .last_update_time = cluster_.now};
    for (PodView& pod : cluster_.seen.pods) {
      if (!pod.node.empty() && dice_.one_in(60)) pod.node_state = NodeState::kGone;
    }
  }

  void remove_one() {
    if (cluster_.seen.pods.empty()) return;
    const int64_t index = dice_.below(static_cast<int64_t>(cluster_.seen.pods.size()));
    cluster_.seen.pods.erase(cluster_.seen.pods.begin() + index);
  }

  void change_spec() {
    api::TrainingJobSpec& spec = cluster_.job.spec;
    if (dice_.one_in(3)) {
      spec.pod_template = random_template(dice_);
    } else if (dice_.one_in(2)) {
      spec.suspend = !spec.suspend;
    } else {
      spec.ranks = dice_.pick<int64_t>({1, 2, 4});
      spec.ranks_per_pod = spec.ranks > 1 ? dice_.pick<int64_t>({1, 2}) : 1;
    }
    cluster_.change_spec();
  }

  // Pods in deletion end and disappear, each in its own time.
  void kubelet() {
    std::erase_if(cluster_.seen.pods,
                  [&](const PodView& pod) { return pod.deleting && dice_.one_in(3); });
  }

  std::string reconcile(bool dies) {
    const Plan next = cluster_.decide();
    std::string fault = fault_of(next, cluster_);
    const auto num_actions = static_cast<int64_t>(next.actions.size());
    const int64_t num_applied = dies && num_actions > 0 ? dice_.below(num_actions) : num_actions;
    for (int64_t i = 0; i < num_applied; ++i) {
      const auto* pod = std::get_if<CreatePod>(&next.actions[static_cast<std::size_t>(i)]);
      if (pod == nullptr) continue;
      const std::string kind = kind_of(pod->body);
      if (templates_.emplace(cluster_.job.status.attempt, kind).first->second != kind) {
        fault = "makes pods of an attempt from two templates";
      }
    }
    cluster_.apply(next, static_cast<std::size_t>(num_applied));
    return fault;
  }

  Dice dice_;
  ModelCluster cluster_;
  int64_t step_ = 0;
  int64_t checkpoint_ = 0;
  std::map<int64_t, std::string> templates_;  // of all pods that an attempt has had
};

TEST(PlanPropertyTest, EveryDisturbedJobEndsOnceTheClusterIsQuiet) {
  constexpr int64_t kNumWorlds = 3000 / kWalkStride;
  constexpr int kQuietRounds = 200;
  int64_t num_succeeded = 0;
  for (uint64_t seed = 0; seed < uint64_t{kNumWorlds}; ++seed) {
    World world(seed);
    for (int round = 0; round < 40; ++round) {
      ASSERT_EQ(world.disturb(), "") << "seed " << seed << ", round " << round;
    }
    for (int round = 0; round < kQuietRounds && !world.is_over(); ++round) {
      ASSERT_EQ(world.go_well(), "") << "seed " << seed << ", quiet round " << round;
    }
    const api::TrainingJobStatus& status = world.cluster().job.status;
    ASSERT_TRUE(world.is_over()) << "seed " << seed << ": " << status.state << " "
                                 << status.message;
    ASSERT_NE(is_true(status, kSucceeded), is_true(status, kFailed)) << "seed " << seed;
    if (is_true(status, kSucceeded)) ++num_succeeded;
  }
  EXPECT_GT(num_succeeded, kNumWorlds / 10);  // both ends are reached, or the worlds prove little
  EXPECT_LT(num_succeeded, kNumWorlds * 9 / 10);
}

}  // namespace
}  // namespace lockstep::plan

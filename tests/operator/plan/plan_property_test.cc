// Properties of plan() over random states: some that a cluster can be in, some that nobody should
// ever see. Seeds are fixed; a failure names its own.
#include <algorithm>
#include <cstdint>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include <gtest/gtest.h>

#include "operator/api/codec.h"
#include "operator/plan/names.h"
#include "operator/plan/plan.h"
#include "operator/plan/status.h"
#include "tests/operator/plan/model_cluster.h"

namespace lockstep::plan {
namespace {

using std::chrono::seconds;

class Dice {
 public:
  explicit Dice(uint64_t seed) : bits_(seed) {}
  int64_t below(int64_t n) { return static_cast<int64_t>(bits_() % static_cast<uint64_t>(n)); }
  bool one_in(int64_t n) { return below(n) == 0; }
  template <typename T>
  T pick(std::initializer_list<T> choices) {
    return *(choices.begin() + below(static_cast<int64_t>(choices.size())));
  }

 private:
  std::mt19937_64 bits_;
};

constexpr int64_t kExitCodes[] = {0, 1, 7, 65, 66, 70, 77, 78, 80, 82, 83, 83, 85, 85, 137, 143};

ContainerExit random_exit(Dice& dice, api::Time now) {
  const auto code = kExitCodes[dice.below(std::size(kExitCodes))];
  return {
      .exit_code = dice.one_in(20) ? dice.below(1 << 20) - (1 << 19) : code,
      .reason = dice.one_in(8) ? "OOMKilled" : "Error",
      .message = dice.pick<std::string>({"", "text\n", "\xff\xfe", "{\"rank\":0}", "[", "\n\n"}),
      .finished_at = dice.one_in(6) ? api::Time{} : now - seconds(dice.below(200))};
}

void randomize(PodView& pod, Dice& dice, api::Time now) {
  pod.phase = dice.pick({PodPhase::kPending, PodPhase::kRunning, PodPhase::kRunning,
                         PodPhase::kSucceeded, PodPhase::kFailed, PodPhase::kUnknown});
  if (pod.phase == PodPhase::kFailed || pod.phase == PodPhase::kSucceeded || dice.one_in(20)) {
    if (!dice.one_in(5)) pod.exit = random_exit(dice, now);
  }
  if (dice.one_in(2)) pod.node = "node";
  pod.ready = dice.one_in(2);
  pod.deleting = dice.one_in(4);
  if (pod.deleting && dice.one_in(2)) {
    pod.deletion_deadline = now + seconds(dice.below(400) - 200);
  }
  if (dice.one_in(10)) pod.reason = dice.pick<std::string>({"Evicted", "OutOfcpu", "\xff", "x"});
  if (dice.one_in(10)) pod.waiting_reason = "ImagePullBackOff";
  if (dice.one_in(10)) pod.rank = dice.below(6) - 2;  // labels can be edited
  if (dice.one_in(10)) pod.attempt = dice.below(6) - 2;
}

api::TrainingJob random_job(Dice& dice) {
  const int64_t ranks = dice.pick<int64_t>({1, 2, 2, 3, 4});
  api::TrainingJob job = dice.one_in(8) ? training_job(ranks) : command_job(ranks);
  api::TrainingJobSpec& spec = job.spec;
  spec.failure_policy.max_restarts = dice.below(4);
  spec.suspend = dice.one_in(5);
  spec.clean_pod_policy = dice.pick(
      {api::CleanPodPolicy::kRunning, api::CleanPodPolicy::kAll, api::CleanPodPolicy::kNone});
  if (dice.one_in(40)) spec.ranks = dice.pick<int64_t>({-1, 0});
  if (dice.one_in(4000)) spec.ranks = dice.pick<int64_t>({5000, int64_t{1} << 60});
  if (dice.one_in(40)) spec.train = dice.pick<nlohmann::json>({nullptr, 3, "x", {{"steps", "y"}}});
  if (dice.one_in(40)) spec.inputs = dice.pick<nlohmann::json>({3, {1, 2}, {{{"name", 5}}}});
  if (dice.one_in(40)) spec.output = dice.pick<nlohmann::json>({3, "x", nlohmann::json::array()});
  if (dice.one_in(40)) spec.command.clear();
  if (dice.one_in(40))
    job.meta.name = dice.pick<std::string>({"", "Demo", "-", std::string(80, 'a')});
  if (dice.one_in(20)) job.meta.deletion_time = kStart;
  job.meta.generation = dice.below(3);
  return job;
}

void randomize_conditions(api::TrainingJobStatus& status, Dice& dice) {
  const std::vector<const char*> types = {kAccepted,  kScheduled, kRunning,
                                          kSuspended, kSucceeded, kFailed};
  for (const char* type : types) {
    const bool is_rare = type == kSucceeded || type == kFailed || type == kSuspended;
    if (dice.one_in(is_rare ? 2 : 4)) continue;
    status.observed_generation = dice.below(3);
    set_condition(status,
                  {.type = type,
                   .value = is_rare ? dice.one_in(6) : dice.one_in(2),
                   .reason = dice.pick<std::string>({"", kStartingReason, kRestartingReason,
                                                     kSuspendingReason, kScalingReason, "Valid"})},
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
  if (!dice.one_in(6)) status.start_time = kStart - seconds(1000);
  if (dice.one_in(4)) status.restart_not_before = kStart + seconds(dice.below(20) - 10);
  if (dice.one_in(4)) status.first_failure = api::FirstFailure{.rank = 1, .reason = "x"};
  if (dice.one_in(3)) status.progress = api::ProgressStatus{.step = 5, .total_steps = 9};
  randomize_conditions(status, dice);
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
                                        .uid = "c" + std::to_string(attempt),
                                        .owner_uid = owner(),
                                        .deleting = dice.one_in(8)});
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
  }
  return cluster;
}

template <typename Children>
const auto* find_by_name(const Children& children, const std::string& name) {
  const auto found = std::find_if(children.begin(), children.end(),
                                  [&](const auto& child) { return child.name == name; });
  return found == children.end() ? nullptr : &*found;
}

// Empty if the action is allowed in this state, else what is wrong with it.
std::string fault_of(const Action& action, const ModelCluster& before) {
  const Observation& seen = before.seen;
  if (const auto* doomed = std::get_if<DeletePod>(&action)) {
    const PodView* pod = find_by_name(seen.pods, doomed->name);
    if (pod == nullptr || pod->uid != doomed->uid) return "deletes a pod that is not there";
    if (pod->owner_uid != before.job.meta.uid) return "deletes another owner's pod";
    if (pod->deleting) return "deletes a pod in deletion";
    if (doomed->grace_seconds < 1) return "forces a deletion";
    return "";
  }
  if (const auto* old = std::get_if<DeleteConfigMap>(&action)) {
    const ChildView* child = find_by_name(seen.config_maps, old->name);
    if (child == nullptr || child->uid != old->uid) return "deletes a map that is not there";
    return child->owner_uid == before.job.meta.uid ? "" : "deletes another owner's map";
  }
  if (is_finished(before.job.status)) return "creates after the end";
  if (before.job.meta.deletion_time) return "creates for a deleted job";
  if (before.job.spec.suspend) return "creates for a suspended job";
  if (const auto* pod = std::get_if<CreatePod>(&action)) {
    return find_by_name(seen.pods, pod->name) == nullptr ? "" : "creates a pod that exists";
  }
  if (const auto* service = std::get_if<CreateService>(&action)) {
    return find_by_name(seen.services, service->name) == nullptr ? "" : "creates a second service";
  }
  const auto& map = std::get<CreateConfigMap>(action);
  return find_by_name(seen.config_maps, map.name) == nullptr ? "" : "creates a second map";
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
    if (next.status.restarts > before.job.spec.failure_policy.max_restarts) {
      return "exceeds the restart budget";
    }
    if (next.status.attempt != old.attempt + 1) return "charges a restart without an attempt";
  }
  if (is_finished(old) && !(next.status == old)) return "changes a finished job";
  if (next.requeue_after && *next.requeue_after < seconds(1)) return "requeues in a hot loop";
  for (const Action& action : next.actions) {
    const std::string fault = fault_of(action, before);
    if (!fault.empty()) return fault;
  }
  return "";
}

// What is wrong after the actions of `next` were applied at the same time, if anything.
std::string fault_after(const Plan& next, ModelCluster cluster) {
  constexpr int kMaxStatusRounds = 4;
  cluster.apply(next);
  if (!next.actions.empty()) {
    const Plan again = cluster.decide();
    if (!again.actions.empty()) return "is not idempotent in its actions";
    if (!(again.status == next.status)) {
      return "is not idempotent in its status: " + api::encode_status(next.status).dump() +
             " then " + api::encode_status(again.status).dump();
    }
    return "";
  }
  for (int round = 0; round < kMaxStatusRounds; ++round) {
    const Plan again = cluster.decide();
    const std::string fault = fault_of(again, cluster);
    if (!fault.empty()) return fault + " (later round)";
    if (!again.actions.empty() || again.status == cluster.job.status) return "";
    cluster.apply(again);
  }
  return "never settles";
}

TEST(PlanPropertyTest, EveryPlanOfARandomStateKeepsTheInvariantsAndIsIdempotent) {
  constexpr uint64_t kNumStates = 100000;
  int64_t num_creating = 0, num_deleting = 0, num_beginning = 0, num_finishing = 0;
  for (uint64_t seed = 0; seed < kNumStates; ++seed) {
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
    EXPECT_GT(count, 1000);  // every kind of plan is met often, or the states prove little
  }
}

// One second in the life of a cluster: pods get nodes, run, end, vanish; the user changes his mind.
class World {
 public:
  explicit World(uint64_t seed) : dice_(seed), cluster_(first_job()) {}

  // A second with faults; the operator may die between any two writes.
  std::string disturb() {
    cluster_.now += seconds(1 + dice_.below(4));
    for (PodView& pod : cluster_.seen.pods) disturb(pod);
    if (dice_.one_in(12)) remove_one();
    if (dice_.one_in(15)) change_spec();
    if (dice_.one_in(25)) cluster_.add_pod(cluster_.job.status.attempt + 1, 0, "somebody");
    kubelet();
    return reconcile(dice_.one_in(4));
  }

  // A second without: whatever was started goes well.
  std::string go_well() {
    cluster_.now += seconds(5);
    cluster_.job.spec.suspend = false;
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
    job.spec.failure_policy.max_restarts = dice_.below(4);
    return job;
  }

  void start(PodView& pod) {
    pod.node = "node";
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

  void remove_one() {
    if (cluster_.seen.pods.empty()) return;
    const int64_t index = dice_.below(static_cast<int64_t>(cluster_.seen.pods.size()));
    cluster_.seen.pods.erase(cluster_.seen.pods.begin() + index);
  }

  void change_spec() {
    api::TrainingJobSpec& spec = cluster_.job.spec;
    if (dice_.one_in(2)) {
      spec.suspend = !spec.suspend;
    } else {
      spec.ranks = dice_.pick<int64_t>({1, 2, 4});
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
    const std::string fault = fault_of(next, cluster_);
    const auto num_actions = static_cast<int64_t>(next.actions.size());
    if (dies && num_actions > 0) {
      cluster_.apply(next, static_cast<std::size_t>(dice_.below(num_actions)));
    } else {
      cluster_.apply(next);
    }
    return fault;
  }

  Dice dice_;
  ModelCluster cluster_;
};

TEST(PlanPropertyTest, EveryDisturbedJobEndsOnceTheClusterIsQuiet) {
  constexpr uint64_t kNumWorlds = 3000;
  constexpr int kQuietRounds = 200;
  int64_t num_succeeded = 0;
  for (uint64_t seed = 0; seed < kNumWorlds; ++seed) {
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
  EXPECT_GT(num_succeeded, 300);  // both ends are reached, or the worlds prove little
  EXPECT_LT(num_succeeded, 2700);
}

}  // namespace
}  // namespace lockstep::plan

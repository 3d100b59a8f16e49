// Several jobs, too few nodes, and a scheduler that knows no gangs: it gives free nodes to pods in
// any order. No job may keep nodes for half a gang, and all must get their turn.
#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "operator/plan/plan.h"
#include "operator/plan/status.h"
#include "tests/operator/plan/model_cluster.h"
#include "tests/operator/plan/random_state.h"
#include "tests/support/instrumented.h"

namespace lockstep::plan {
namespace {

using std::chrono::seconds;

constexpr seconds kTimeout{60};
constexpr seconds kWork{200};  // that a whole gang runs

// A job and what its operator remembers: it plans when told something, or when it asked to.
struct Contender {
  ModelCluster cluster;
  std::optional<api::Time> wake;
  bool has_news = true;
  std::optional<api::Time> runs_since;
  std::optional<api::Time> half_since;
};

class Contention {
 public:
  Contention(uint64_t seed, std::vector<int64_t> sizes, int64_t num_nodes, seconds timeout)
      : dice_(seed), num_nodes_(num_nodes) {
    for (const int64_t size : sizes) {
      api::TrainingJob job = command_job(size);
      job.meta.uid = "uid-" + std::to_string(seed) + "-" + std::to_string(jobs_.size());
      job.spec.scheduling.gang_timeout = timeout;
      jobs_.push_back({ModelCluster(std::move(job)), {}, true, {}, {}});
    }
  }

  // One second: operators, scheduler, kubelets.
  void step() {
    now_ += seconds(1);
    for (Contender& job : jobs_) {
      job.cluster.now = now_;
      remove_doomed(job);
      plan_if_due(job);
    }
    schedule();
    for (Contender& job : jobs_) {
      work(job);
      measure(job);
    }
  }

  bool all_succeeded() const {
    return std::all_of(jobs_.begin(), jobs_.end(), [](const Contender& job) {
      return is_true(job.cluster.job.status, kSucceeded);
    });
  }
  // How long nodes were kept by a gang that had some and lacked others.
  seconds longest_half() const { return longest_half_; }
  int64_t num_releases() const { return num_releases_; }

 private:
  static bool is_bound(const PodView& pod) { return !pod.node.empty(); }
  static bool holds_node(const PodView& pod) { return is_bound(pod) && !has_ended(pod); }
  static bool has_ended(const PodView& pod) { return pod.phase == PodPhase::kSucceeded; }

  void remove_doomed(Contender& job) {
    const auto removed =
        std::erase_if(job.cluster.seen.pods, [](const PodView& pod) { return pod.deleting; });
    if (removed > 0) job.has_news = true;
  }

  void plan_if_due(Contender& job) {
    if (!job.has_news && (!job.wake || now_ < *job.wake)) return;
    const Plan next = job.cluster.decide();
    job.has_news = !next.actions.empty() || !(next.status == job.cluster.job.status);
    if (next.status.gang_releases > job.cluster.job.status.gang_releases) ++num_releases_;
    job.cluster.apply(next);
    job.wake.reset();
    if (next.requeue_after) job.wake = now_ + *next.requeue_after;
  }

  void schedule() {
    std::vector<std::pair<Contender*, PodView*>> waiting;
    int64_t free = num_nodes_;
    for (Contender& job : jobs_) {
      for (PodView& pod : job.cluster.seen.pods) {
        if (holds_node(pod)) --free;
        if (!is_bound(pod) && !pod.deleting) waiting.emplace_back(&job, &pod);
      }
    }
    ASSERT_GE(free, 0);
    while (free > 0 && !waiting.empty()) {
      const auto chosen = waiting.begin() + dice_.below(static_cast<int64_t>(waiting.size()));
      chosen->second->node = "node";
      chosen->second->bound_at = now_;
      chosen->second->phase = PodPhase::kRunning;
      chosen->first->has_news = true;
      waiting.erase(chosen);
      --free;
    }
  }

  static bool is_whole(const Contender& job) {
    const auto& pods = job.cluster.seen.pods;
    return static_cast<int64_t>(pods.size()) == job.cluster.job.spec.ranks &&
           std::all_of(pods.begin(), pods.end(),
                       [](const PodView& pod) { return is_bound(pod) && !pod.deleting; });
  }

  void work(Contender& job) {
    if (!is_whole(job)) {
      job.runs_since.reset();
      return;
    }
    if (!job.runs_since) job.runs_since = now_;
    if (now_ - *job.runs_since < kWork) return;
    for (PodView& pod : job.cluster.seen.pods) pod.phase = PodPhase::kSucceeded;
    job.has_news = true;
  }

  void measure(Contender& job) {
    const auto& pods = job.cluster.seen.pods;
    const bool holds = std::any_of(pods.begin(), pods.end(), holds_node);
    if (!holds || is_whole(job)) {
      job.half_since.reset();
      return;
    }
    if (!job.half_since) job.half_since = now_;
    longest_half_ = std::max(longest_half_, now_ - *job.half_since);
  }

  Dice dice_;
  const int64_t num_nodes_;
  api::Time now_ = kStart;
  std::vector<Contender> jobs_;
  seconds longest_half_{0};
  int64_t num_releases_ = 0;
};

struct Case {
  std::vector<int64_t> sizes;
  int64_t num_nodes;
};

const std::vector<Case> kCases = {
    {{2, 2}, 2}, {{4, 4}, 6}, {{4, 4, 4}, 5}, {{8, 4, 2}, 8}, {{2, 2, 2, 2}, 3}};

TEST(GangContentionTest, EveryJobGetsItsTurnAndNoHalfGangKeepsNodesForLong) {
  constexpr uint64_t kSeeds = 60 / kWalkStride;
  constexpr int kSeconds = 40000;
  int64_t num_releases = 0;
  for (const Case& one : kCases) {
    for (uint64_t seed = 0; seed < kSeeds; ++seed) {
      Contention world(seed, one.sizes, one.num_nodes, kTimeout);
      int second = 0;
      while (second < kSeconds && !world.all_succeeded()) {
        world.step();
        ++second;
      }
      ASSERT_TRUE(world.all_succeeded())
          << one.sizes.size() << " jobs on " << one.num_nodes << " nodes, seed " << seed;
      // The plan that releases, the one that deletes, and the kubelet's confirmation.
      ASSERT_LE(world.longest_half(), kTimeout + seconds(3)) << "seed " << seed;
      num_releases += world.num_releases();
    }
  }
  EXPECT_GT(num_releases, 20) << "half gangs are met, or this proves little";
}

TEST(GangContentionTest, WithoutTheTimeoutTwoJobsBlockEachOtherForEver) {
  int num_blocked = 0;
  for (uint64_t seed = 0; seed < 20; ++seed) {
    Contention world(seed, {2, 2}, 2, seconds(0));
    for (int second = 0; second < 5000 && !world.all_succeeded(); ++second) world.step();
    if (!world.all_succeeded()) ++num_blocked;
  }
  EXPECT_GT(num_blocked, 5);  // two of three orders give each job one node
}

}  // namespace
}  // namespace lockstep::plan

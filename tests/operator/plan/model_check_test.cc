// Model check of plan(): one job of three pods with stale caches, lost answers, late writes, user
// edits, failing ranks and nodes, and a crash between any two writes. From every state of a job's
// life all interleavings are followed to a stated depth; LOCKSTEP_MODEL_DEPTH raises it. The same
// of a job whose template is edited, and of one with two ranks in each pod.
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <iostream>
#include <optional>
#include <random>
#include <string>
#include <unordered_set>
#include <vector>

#include <gtest/gtest.h>

#include "tests/operator/plan/model_cluster.h"
#include "tests/operator/plan/model_moves.h"
#include "tests/operator/plan/model_planner.h"
#include "tests/support/instrumented.h"

namespace lockstep::plan {
namespace {

constexpr int64_t kMaxRestarts = 1;
constexpr int kMaxQuietMoves = 600;
constexpr std::chrono::seconds kGangTimeout{40};

constexpr int kDepth = kIsInstrumented ? 2 : 4;
constexpr int kDepthAround = kIsInstrumented ? 1 : kDepth - 2;  // of a life that was disturbed

struct Digest {
  uint64_t low = 0, high = 0;
  bool operator==(const Digest&) const = default;
};
struct DigestHash {
  std::size_t operator()(const Digest& digest) const { return digest.low; }
};

// Two independent 64-bit hashes: among millions of states none is taken for another.
Digest digest_of(const State& state, bool with_allowance) {
  const std::string text = fingerprint(state, with_allowance);
  uint64_t low = 1469598103934665603U, high = 0x9E3779B97F4A7C15U;
  for (const char c : text) {
    low = (low ^ static_cast<unsigned char>(c)) * 1099511628211U;
    high = (high + static_cast<unsigned char>(c)) * 0xBF58476D1CE4E5B9U;
    high ^= high >> 29;
  }
  return {low, high};
}

api::TrainingJob checked_job(int64_t ranks, int64_t ranks_per_pod) {
  api::TrainingJob job = command_job(ranks);
  job.spec.ranks_per_pod = ranks_per_pod;
  job.spec.failure_policy.max_restarts = kMaxRestarts;
  job.spec.scheduling.gang_timeout = kGangTimeout;
  return job;
}

class ModelCheckTest : public testing::Test {
 protected:
  explicit ModelCheckTest(const api::TrainingJob& job = checked_job(3, 1),
                          const GangApis& apis = {})
      : planner_(job, apis) {}

  // One state on the way, and how it was reached.
  struct Place {
    State state;
    std::size_t arrival = 0;  // in arrivals_
  };
  struct Arrival {
    std::size_t from = 0;
    Move move;
  };

  std::string trace(std::size_t arrival) const {
    std::vector<std::string> lines;
    while (arrival != 0) {
      lines.push_back(describe(arrivals_[arrival].move));
      arrival = arrivals_[arrival].from;
    }
    std::string text;
    for (auto line = lines.rbegin(); line != lines.rend(); ++line) text += "  " + *line + "\n";
    return text;
  }

  // The states of a life, first to last. Once the ranks run, each of `deeds` happens as soon as
  // nothing else does or the gang is complete.
  std::vector<State> life(const std::vector<Move::Kind>& deeds) {
    State state = moves_.first_state({});
    std::vector<State> states = {state};
    auto deed = deeds.begin();
    while (states.size() < kMaxQuietMoves) {
      const std::optional<Move> quiet = moves_.undisturbed_move(state);
      const bool runs = quiet && quiet->kind == Move::kSucceed;
      if (deed != deeds.end() && (runs || !quiet)) {
        state.left = {.edits = 1, .reshapes = 1, .breaks = 1, .crashes = 0};
        EXPECT_EQ(moves_.apply(state, {.kind = *deed++, .pod = {0, state.first_spec.per_pod}}), "");
        state.left = {};
      } else if (quiet) {
        EXPECT_EQ(moves_.apply(state, *quiet), "");
      } else {
        break;
      }
      states.push_back(state);
    }
    EXPECT_EQ(moves_.fault_at_rest(state), "");
    return states;
  }

  // Empty, or why the cluster does not come to a good rest if nobody disturbs it from now on.
  std::string fault_undisturbed(State state) {
    std::vector<Digest> way;
    while (true) {
      const Digest digest = digest_of(state, false);
      if (converging_.contains(digest)) break;
      way.push_back(digest);
      if (way.size() > kMaxQuietMoves) return "never comes to rest" + quiet_trace(state);
      const auto move = moves_.undisturbed_move(state);
      if (!move) {
        const std::string fault = fault_of_rest(state);
        if (!fault.empty()) return fault;
        break;
      }
      const std::string fault = moves_.apply(state, *move);
      if (!fault.empty()) return fault + " (undisturbed)";
    }
    converging_.insert(way.begin(), way.end());
    return "";
  }

  std::string quiet_trace(State state) {
    std::string text = "; it goes on:\n";
    for (int i = 0; i < 30; ++i) {
      const auto move = moves_.undisturbed_move(state);
      if (!move) break;
      moves_.apply(state, *move);
      text += "  " + describe(*move) + "\n";
    }
    return text;
  }

  // At rest, one more look changes nothing.
  std::string fault_of_rest(State state) {
    const int64_t version = state.counters.version;
    std::string fault = moves_.fault_at_rest(state);
    state.memory.is_queued = true;
    for (int i = 0; i < 10 && fault.empty(); ++i) {
      const auto move = moves_.undisturbed_move(state);
      if (!move) break;
      fault = moves_.apply(state, *move);
    }
    if (fault.empty() && state.counters.version != version) return "writes at rest";
    return fault;
  }

  // All that can follow on `place`: checks each new state and, unless it is the last, queues it.
  void expand(const Place& place, bool is_last, std::vector<Place>& next) {
    for (const Move& move : moves_.moves(place.state)) {
      State state = place.state;
      const std::string fault = moves_.apply(state, move);
      ++num_moves_;
      ASSERT_EQ(fault, "") << trace(place.arrival) << "  " << describe(move);
      if (!visited_.insert(digest_of(state, true)).second) continue;
      arrivals_.push_back({place.arrival, move});
      const std::string diverging = fault_undisturbed(state);
      ASSERT_EQ(diverging, "") << trace(arrivals_.size() - 1);
      if (!is_last) next.push_back({std::move(state), arrivals_.size() - 1});
    }
  }

  // Breadth first from every state of `life`, `depth` moves far.
  void explore(const std::vector<State>& life, const Allowance& allowance, int depth) {
    std::vector<Place> places;
    places.reserve(life.size());
    for (State state : life) {
      state.left = allowance;
      if (visited_.insert(digest_of(state, true)).second) places.push_back({std::move(state), 0});
    }
    for (int level = 0; level < depth && !places.empty(); ++level) {
      std::vector<Place> next;
      for (const Place& place : places) {
        expand(place, level + 1 == depth, next);
        if (HasFatalFailure()) return;
      }
      places = std::move(next);
    }
  }

  // The same from every state of each of `lives`.
  void explore_around(const std::vector<std::vector<Move::Kind>>& lives, const Allowance& allowance,
                      int depth) {
    std::size_t num_states = 0;
    for (const std::vector<Move::Kind>& deeds : lives) {
      const std::vector<State> states = life(deeds);
      num_states += states.size();
      explore(states, allowance, depth);
      if (HasFatalFailure()) return;
    }
    report(std::to_string(depth) + " moves from each of " + std::to_string(num_states) +
           " states of " + std::to_string(lives.size()) + " lives");
  }

  // Paths of 150 moves taken at random, each followed by no more disturbance.
  void walk_all(uint64_t num_walks, const Allowance& allowance) {
    constexpr int kLength = 150;
    for (uint64_t seed = 0; seed < num_walks && !HasFatalFailure(); ++seed) {
      walk(seed, kLength, allowance);
    }
    report(std::to_string(num_walks) + " walks of " + std::to_string(kLength) + " moves");
  }

  void walk(uint64_t seed, int length, const Allowance& allowance) {
    std::mt19937_64 random(seed);
    State state = moves_.first_state(allowance);
    std::string way;
    for (int i = 0; i < length; ++i) {
      const std::vector<Move> all = moves_.moves(state);
      if (all.empty()) break;
      const Move& move = all[random() % all.size()];
      way += "  " + describe(move) + "\n";
      ASSERT_EQ(moves_.apply(state, move), "") << "seed " << seed << ":\n" << way;
      ++num_moves_;
      if (random() % 8 != 0) continue;
      ASSERT_EQ(fault_undisturbed(state), "") << "seed " << seed << ":\n" << way;
    }
    ASSERT_EQ(fault_undisturbed(state), "") << "seed " << seed << ":\n" << way;
  }

  // Statuses in which a half gang has given its nodes back.
  int64_t num_releases() const {
    int64_t count = 0;
    for (int number = 0; number < static_cast<int>(planner_.num_statuses()); ++number) {
      if (planner_.status(number).gang_releases > 0) ++count;
    }
    return count;
  }

  void report(const std::string& what) const {
    std::cout << what << ": " << visited_.size() << " states, " << num_moves_ << " moves, "
              << planner_.num_plans() << " plans, " << planner_.num_statuses() << " statuses, "
              << converging_.size() << " states seen on the way to rest\n";
  }

  ModelPlanner planner_;
  ModelMoves moves_{planner_, kMaxRestarts};
  std::unordered_set<Digest, DigestHash> visited_, converging_;
  std::vector<Arrival> arrivals_{1};
  int64_t num_moves_ = 0;
};

int added_depth() {
  const char* wish = std::getenv("LOCKSTEP_MODEL_DEPTH");
  return wish == nullptr ? 0 : std::stoi(wish);
}

TEST_F(ModelCheckTest, EveryInterleavingOfAPlainLifeKeepsTheInvariantsAndConverges) {
  const int depth = kDepth + added_depth();
  const std::vector<State> states = life({});
  explore(states, {.edits = 2, .breaks = 2, .crashes = 1}, depth);
  report(std::to_string(depth) + " moves from each of " + std::to_string(states.size()) +
         " states of a plain life");
  EXPECT_GT(visited_.size(), kIsInstrumented ? 5000U : 50000U);
  EXPECT_GT(num_releases(), 0);
}

TEST_F(ModelCheckTest, EveryInterleavingAroundAnEditOrAFailureKeepsTheInvariantsAndConverges) {
  explore_around({{Move::kSuspendOrResume, Move::kSuspendOrResume},
                  {Move::kScale},
                  {Move::kRecreateJob},
                  {Move::kFail},
                  {Move::kEvict},
                  {Move::kLoseNode}},
                 {.edits = 2, .breaks = 2, .crashes = 1}, kDepthAround + added_depth());
  EXPECT_GT(visited_.size(), 5000U);
}

// The life of a job whose template changes while it waits for nodes, while it runs and while it is
// suspended.
const std::vector<std::vector<Move::Kind>> kReshapedLives = {
    {Move::kEditTemplate, Move::kFail},
    {Move::kSuspendOrResume, Move::kEditTemplate, Move::kSuspendOrResume},
};

TEST_F(ModelCheckTest, EveryInterleavingWithTemplateEditsKeepsOneTemplatePerAttempt) {
  explore({moves_.first_state({})}, {.reshapes = 2, .breaks = 1, .crashes = 1}, kDepth + 3);
  explore_around(kReshapedLives, {.edits = 1, .reshapes = 2, .breaks = 1, .crashes = 1},
                 kDepthAround + added_depth());
  EXPECT_GT(visited_.size(), kIsInstrumented ? 4000U : 5000U);
}

// Two pods of two ranks each.
class GroupedModelCheckTest : public ModelCheckTest {
 protected:
  GroupedModelCheckTest() : ModelCheckTest(checked_job(4, 2)) {}
};

TEST_F(GroupedModelCheckTest, EveryInterleavingOfPodsOfTwoRanksKeepsTheInvariantsAndConverges) {
  explore_around({{},
                  {Move::kFail},
                  {Move::kScale},
                  {Move::kLoseNode},
                  {Move::kSuspendOrResume, Move::kRegroup, Move::kSuspendOrResume}},
                 {.edits = 2, .reshapes = 1, .breaks = 2, .crashes = 1},
                 kDepthAround + added_depth());
  EXPECT_GT(visited_.size(), kIsInstrumented ? 4000U : 5000U);
}

TEST_F(GroupedModelCheckTest, LongRandomWalksWithTemplatesAndRegroupingConverge) {
  walk_all((added_depth() > 0 ? 40000U : 4000U) / uint64_t{kWalkStride},
           {.edits = 4, .reshapes = 4, .breaks = 6, .crashes = 4});
}

// A cluster that serves Kubernetes' own Workload API.
class GangModelCheckTest : public ModelCheckTest {
 protected:
  GangModelCheckTest() : ModelCheckTest(checked_job(3, 1), {.native = true}) {}
};

TEST_F(GangModelCheckTest, EveryInterleavingWithAPodGroupMakesItBeforeItsPodsAndConverges) {
  explore_around({{},
                  {Move::kSuspendOrResume, Move::kSuspendOrResume},
                  {Move::kScale},
                  {Move::kRecreateJob},
                  {Move::kFail}},
                 {.edits = 2, .breaks = 1, .crashes = 1}, kDepthAround + added_depth());
  EXPECT_GT(visited_.size(), kIsInstrumented ? 2000U : 5000U);
}

TEST_F(GangModelCheckTest, LongRandomWalksWithAPodGroupConverge) {
  walk_all((added_depth() > 0 ? 20000U : 2000U) / uint64_t{kWalkStride},
           {.edits = 4, .breaks = 6, .crashes = 4});
}

TEST_F(ModelCheckTest, LongRandomWalksKeepTheInvariantsAndConverge) {
  walk_all((added_depth() > 0 ? 200000U : 20000U) / uint64_t{kWalkStride},
           {.edits = 4, .breaks = 6, .crashes = 4});
}

}  // namespace
}  // namespace lockstep::plan

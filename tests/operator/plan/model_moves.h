// What can happen next in a state of the model, and what it does: the operator's reconcile write by
// write, the watches, the scheduler, the kubelet, the garbage collector, the user, and accidents.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tests/operator/plan/model_planner.h"
#include "tests/operator/plan/model_state.h"

namespace lockstep::plan {

struct Move {
  enum Kind : uint8_t {
    // The operator and what it is told.
    kReconcile,  // plans from its caches
    kWrite,      // the next write of that plan; `argument` 1: the second of two parallel ones
    kDeliverJob,
    kDeliverPod,
    kDeliverChild,
    kDeliverNode,
    kTimePasses,  // until the operator wakes by itself
    kLimboArrives,
    // The cluster.
    kSchedule,
    kRun,
    kSucceed,
    kConfirm,       // the kubelet: a pod in deletion has ended
    kCollect,       // a pod whose owner or node is gone
    kCollectChild,  // `argument` 1: the Service; else the ConfigMap of pod.attempt
    kFreeName,      // the stranger's pod goes
    // Disturbances, counted by State::left: edits,
    kSuspendOrResume,
    kScale,
    kDeleteJob,
    kRecreateJob,
    // reshapes,
    kEditTemplate,
    kRegroup,
    // breaks,
    kFail,      // exit code 1
    kLosePeer,  // exit code 83
    kPreempt,   // exit code 85; no disturbance of a pod in deletion
    kEvict,
    kLoseNode,
    kTakeName,
    // and crashes.
    kCrash,
    kCrashSending,  // the write under way arrives later
    kLoseAnswer,    // the write is done, and reported as failed
  };
  Kind kind = kReconcile;
  PodType::Key pod{};
  int argument = 0;
};
std::string describe(const Move& move);

class ModelMoves {
 public:
  // `planner` outlives the moves.
  ModelMoves(ModelPlanner& planner, int64_t max_restarts)
      : planner_(planner), max_restarts_(max_restarts) {}

  // The job as its user creates it, an operator that runs, and nothing else.
  State first_state(const Allowance& allowance) const;

  // Everything that can happen, disturbances included.
  std::vector<Move> moves(const State& state) const;
  // The one thing that happens next where nobody disturbs; nothing: the cluster is at rest.
  std::optional<Move> undisturbed_move(const State& state) const;

  // Makes the move. Empty, or the invariant that it breaks.
  std::string apply(State& state, const Move& move) const;

  // Empty if a cluster in which nothing happens any more may be as this one is.
  std::string fault_at_rest(const State& state) const;

 private:
  void begin_reconcile(State& state) const;
  std::string next_write(State& state, const Move& move) const;
  void end_reconcile(State& state) const;
  std::string write(State& state, const Step& step, bool is_late, bool& is_done) const;
  std::string write_status(State& state, const Step& step, bool& is_done) const;
  std::string write_group(State& state, const Step& step, bool is_late) const;
  std::string create_pod(State& state, const Step& step, bool is_late, bool& is_done) const;
  std::string arrive_late(State& state) const;
  void pass_time(State& state, int seconds) const;

  ModelPlanner& planner_;
  const int64_t max_restarts_;
};

}  // namespace lockstep::plan

#include "tests/operator/plan/model_world.h"

#include <algorithm>

#include "tests/operator/plan/model_server.h"

namespace lockstep::plan {
namespace {

using support::Object;

constexpr int kTypedPeerLost = 83;
constexpr int kTypedPreempted = 85;
constexpr int64_t kEvictionGrace = 30;

bool is_orphan(const State& s, int64_t owner) {
  const Object<JobType>* job = s.jobs.server.find(0);
  return owner != kStranger && (job == nullptr || job->uid != owner);
}

// Ranks make steps only together: every rank of the attempt runs, or has finished.
bool is_gang_complete(const State& s, const Object<PodType>& pod) {
  int present = 0;
  for (const auto& peer : s.pods.server.items()) {
    const bool takes_part =
        peer.status.phase == PodPhase::kRunning || peer.status.phase == PodPhase::kSucceeded;
    if (peer.spec.owner == pod.spec.owner && peer.key.attempt == pod.key.attempt && takes_part &&
        !is_node_gone(s, peer)) {
      ++present;
    }
  }
  return present * pod.spec.per_pod == pod.spec.world_size;
}

void end_pod(State& s, const PodType::Key& key, int exit_code) {
  const PodPhase phase = exit_code == 0 ? PodPhase::kSucceeded : PodPhase::kFailed;
  write_pod_status(s, key, {.phase = phase, .exit_code = exit_code, .ended_ago = 0});
}

void schedule(State& s, const PodType::Key& key) {
  PodType::Spec spec = s.pods.server.find(key)->spec;
  spec.node = key.rank == spec.per_pod && !s.node_2_gone ? 2 : 1;  // the second pod
  change(s, s.pods, key, [&](auto& pods) { return pods.replace(s.counters, key, {}, spec); });
}

void collect_child(State& s, const ChildType::Key& key) {
  change(s, s.children, key, [&](auto& children) { return children.remove(s.counters, key); });
}

void delete_job(State& s) {
  change(s, s.jobs, 0, [&](auto& jobs) { return jobs.remove(s.counters, 0); });
  s.failures = 0;
}

void reshape_job(State& s, const Move& move) {
  JobType::Spec spec = s.jobs.server.find(0)->spec;
  if (move.kind == Move::kEditTemplate) spec.pod_template = 1 - spec.pod_template;
  if (move.kind == Move::kRegroup) spec.per_pod = 3 - spec.per_pod;
  write_job_spec(s, spec);
}

void suspend_or_resume(State& s) {
  JobType::Spec spec = s.jobs.server.find(0)->spec;
  spec.suspend = !spec.suspend;
  write_job_spec(s, spec);
}

// To a pod less than at first, and back.
void scale(State& s) {
  JobType::Spec spec = s.jobs.server.find(0)->spec;
  spec.ranks = 2 * s.first_spec.ranks - s.first_spec.per_pod - spec.ranks;
  write_job_spec(s, spec);
}

// The attempt that a stranger can get in the way of: the one that comes next.
int next_attempt(const State& s) {
  int newest = -1;
  for (const auto& pod : s.pods.server.items()) newest = std::max(newest, pod.key.attempt);
  return newest + 1;
}

void list_moves_of(const State& s, const Object<PodType>& pod, std::vector<Move>& moves) {
  const auto add = [&](Move::Kind kind) { moves.push_back({.kind = kind, .pod = pod.key}); };
  if (pod.spec.owner == kStranger) return add(Move::kFreeName);
  if (is_node_gone(s, pod)) return add(Move::kCollect);
  if (is_orphan(s, pod.spec.owner) && !pod.deleting) add(Move::kCollect);
  if (pod.deleting) {
    add(Move::kConfirm);
    if (pod.status.phase == PodPhase::kRunning) add(Move::kPreempt);  // SIGTERM
    return;
  }
  if (pod.spec.node == 0) return add(Move::kSchedule);
  if (pod.status.phase == PodPhase::kPending) add(Move::kRun);
  if (pod.status.phase == PodPhase::kRunning && is_gang_complete(s, pod)) add(Move::kSucceed);
}

}  // namespace

void start_operator(State& s) {
  const auto list = [&s](auto& all) {
    all.cache = all.server;
    all.under_way.clear();
    all.cache_version = s.counters.version;
  };
  s.memory = {};
  list(s.jobs);
  list(s.pods);
  list(s.children);
  s.operator_knows_node_2_gone = s.node_2_gone;
}

bool move_pod(State& s, const Move& move) {
  switch (move.kind) {
    case Move::kSchedule:
      schedule(s, move.pod);
      return true;
    case Move::kRun:
      write_pod_status(s, move.pod, {.phase = PodPhase::kRunning});
      return true;
    case Move::kSucceed:
      end_pod(s, move.pod, 0);
      return true;
    case Move::kConfirm:
    case Move::kFreeName:
      remove_pod(s, move.pod, {}, 0);
      return true;
    case Move::kCollect:
      remove_pod(s, move.pod, {},
                 is_node_gone(s, *s.pods.server.find(move.pod)) ? std::optional<int64_t>(0)
                                                                : std::nullopt);
      return true;
    case Move::kCollectChild:
      collect_child(s, {move.argument != 0, move.pod.attempt});
      return true;
    default:
      return false;
  }
}

void disturb(State& s, const Move& move) {
  const Object<JobType>* job = s.jobs.server.find(0);
  const bool is_told_to_stop =
      move.kind == Move::kPreempt && s.pods.server.find(move.pod)->deleting;
  if (move.kind <= Move::kRecreateJob) {
    --s.left.edits;
  } else if (move.kind <= Move::kRegroup) {
    --s.left.reshapes;
  } else if (move.kind >= Move::kCrash) {
    --s.left.crashes;
  } else if (!is_told_to_stop) {
    --s.left.breaks;
  }
  switch (move.kind) {
    case Move::kSuspendOrResume:
      return suspend_or_resume(s);
    case Move::kScale:
      return scale(s);
    case Move::kEditTemplate:
    case Move::kRegroup:
      return reshape_job(s, move);
    case Move::kDeleteJob:
      return delete_job(s);
    case Move::kRecreateJob:
      if (job != nullptr) delete_job(s);
      change(s, s.jobs, 0, [&](auto& jobs) { return jobs.create(s.counters, 0, s.first_spec); });
      return;
    case Move::kFail:
      ++s.failures;
      return end_pod(s, move.pod, 1);
    case Move::kLosePeer:
      ++s.failures;
      return end_pod(s, move.pod, kTypedPeerLost);
    case Move::kPreempt:
      return end_pod(s, move.pod, kTypedPreempted);
    case Move::kEvict:
      remove_pod(s, move.pod, {}, kEvictionGrace);
      return;
    case Move::kLoseNode:
      s.node_2_gone = true;
      return;
    case Move::kTakeName:
      change(s, s.pods, move.pod,
             [&](auto& pods) { return pods.create(s.counters, move.pod, {.owner = kStranger}); });
      return;
    case Move::kCrashSending:
      s.limbo = s.memory.todo.front();
      return start_operator(s);
    default:
      return start_operator(s);
  }
}

void list_cluster_moves(const State& s, std::vector<Move>& moves) {
  for (const auto& child : s.children.server.items()) {
    if (!is_orphan(s, child.spec.owner)) continue;
    moves.push_back({.kind = Move::kCollectChild,
                     .pod = {child.key.attempt, 0},
                     .argument = child.key.is_service ? 1 : 0});
  }
  for (const auto& pod : s.pods.server.items()) list_moves_of(s, pod, moves);
}

void list_disturbances(const State& s, std::vector<Move>& moves) {
  const bool has_job = s.jobs.server.find(0) != nullptr;
  if (s.left.edits > 0) {
    if (has_job) {
      for (const auto kind : {Move::kSuspendOrResume, Move::kScale, Move::kDeleteJob}) {
        moves.push_back({.kind = kind});
      }
    }
    moves.push_back({.kind = Move::kRecreateJob});
  }
  if (s.left.reshapes > 0 && has_job) {
    const JobType::Spec& spec = s.jobs.server.find(0)->spec;
    moves.push_back({.kind = Move::kEditTemplate});
    if (spec.suspend && spec.ranks % 2 == 0) moves.push_back({.kind = Move::kRegroup});
  }
  bool is_name_taken = false;
  bool uses_node_2 = false;
  for (const auto& pod : s.pods.server.items()) {
    if (pod.spec.owner == kStranger) is_name_taken = true;
    if (pod.spec.node == 2) uses_node_2 = true;
    if (s.left.breaks == 0 || pod.spec.owner == kStranger || is_node_gone(s, pod)) continue;
    if (pod.status.phase == PodPhase::kRunning && !pod.deleting) {
      for (const auto kind : {Move::kFail, Move::kLosePeer, Move::kPreempt}) {
        moves.push_back({.kind = kind, .pod = pod.key});
      }
    }
    if (!pod.deleting) moves.push_back({.kind = Move::kEvict, .pod = pod.key});
  }
  if (s.left.breaks > 0) {
    if (!s.node_2_gone && uses_node_2) moves.push_back({.kind = Move::kLoseNode});
    if (!is_name_taken)
      moves.push_back({.kind = Move::kTakeName, .pod = {next_attempt(s), s.first_spec.per_pod}});
  }
  if (s.left.crashes == 0 || !s.memory.is_busy) return;
  moves.push_back({.kind = Move::kCrash});
  moves.push_back({.kind = Move::kLoseAnswer});
  if (!s.limbo) moves.push_back({.kind = Move::kCrashSending});
}

}  // namespace lockstep::plan

#include "tests/operator/plan/model_moves.h"

#include <algorithm>
#include <array>
#include <utility>

#include "operator/plan/status.h"
#include "tests/operator/plan/model_server.h"
#include "tests/operator/plan/model_world.h"

namespace lockstep::plan {
namespace {

using support::Answer;
using support::Change;
using support::Object;
using support::Refusal;

constexpr int kLongAgo = 60;           // beyond every patience of plan()
constexpr int64_t kLongOverdue = -31;  // beyond kUnreachableAfter

void remember_created(OperatorMemory& memory) {
  if (memory.created_pods != 0) memory.written_pods = memory.created_pods;
  if (memory.created_children != 0) memory.written_children = memory.created_children;
  memory.created_pods = memory.created_children = 0;
}

bool has_seen_own_writes(const State& s) {
  return s.jobs.cache.items().front().version >= s.memory.written_job &&
         s.pods.cache_version >= s.memory.written_pods &&
         s.children.cache_version >= s.memory.written_children;
}

template <typename Visit>
void visit_dated(State& s, Visit visit) {
  for (auto& pod : s.pods.server.items()) visit(pod);
  for (auto& pod : s.pods.cache.items()) visit(pod);
  for (auto& news : s.pods.under_way) visit(news.item);
}

template <typename Visit>
void visit_statuses(State& s, Visit visit) {
  for (auto& job : s.jobs.server.items()) visit(job.status);
  for (auto& job : s.jobs.cache.items()) visit(job.status);
  for (auto& news : s.jobs.under_way) visit(news.item.status);
  if (s.limbo && s.limbo->kind == Step::kStatus) visit(s.limbo->status);
}

}  // namespace

State ModelMoves::first_state(const Allowance& allowance) const {
  State s;
  s.counters.uid = int64_t{1} << 40;  // never mistaken for a version
  s.first_spec = planner_.first_spec();
  s.jobs.server.create(s.counters, 0, s.first_spec);
  s.left = allowance;
  start_operator(s);
  return s;
}

void ModelMoves::pass_time(State& s, int seconds) const {
  visit_dated(s, [seconds](Object<PodType>& pod) {
    if (has_exited(pod)) {
      pod.status.ended_ago = std::min(pod.status.ended_ago + seconds, kLongAgo);
    }
    if (pod.spec.node != 0 && !has_exited(pod)) {
      pod.spec.bound_ago = std::min(pod.spec.bound_ago + seconds, kLongAgo);
    }
    if (pod.deleting) pod.grace_seconds = std::max(pod.grace_seconds - seconds, kLongOverdue);
  });
  visit_statuses(s, [this, seconds](int& status) { status = planner_.age(status, seconds); });
  s.memory.wake_in = -1;
  s.memory.is_queued = true;
}

void ModelMoves::begin_reconcile(State& s) const {
  OperatorMemory& memory = s.memory;
  memory.is_queued = false;
  memory.wake_in = -1;
  if (s.jobs.cache.items().empty()) {
    memory.written_job = memory.written_pods = memory.written_children = 0;
    return;
  }
  if (!has_seen_own_writes(s)) {
    memory.wake_in = 1;
    return;
  }
  Decision decision = planner_.decide(s);
  memory.is_busy = true;
  memory.has_failed = false;
  memory.todo = std::move(decision.steps);
  memory.requeue_after = decision.requeue_after;
  if (memory.todo.empty()) end_reconcile(s);
}

void ModelMoves::end_reconcile(State& s) const {
  remember_created(s.memory);
  s.memory.is_busy = false;
  s.memory.wake_in = s.memory.has_failed ? 1 : -1;
  if (!s.memory.has_failed && s.memory.requeue_after > 0) s.memory.wake_in = s.memory.requeue_after;
  s.memory.has_failed = false;
  s.memory.requeue_after = 0;
}

std::string ModelMoves::next_write(State& s, const Move& move) const {
  OperatorMemory& memory = s.memory;
  const Step step = memory.todo[static_cast<std::size_t>(move.argument)];
  memory.todo.erase(memory.todo.begin() + move.argument);
  if (step.kind == Step::kStatus) remember_created(memory);
  const OperatorMemory before = memory;
  bool is_done = false;
  std::string fault = write(s, step, false, is_done);
  if (move.kind == Move::kLoseAnswer) {
    memory = before;
    is_done = false;
  }
  if (!is_done) {
    memory.has_failed = true;
    std::erase_if(memory.todo, [](const Step& rest) { return rest.kind != Step::kStatus; });
  }
  if (memory.todo.empty()) end_reconcile(s);
  return fault;
}

// A deletion names the group's UID, so one that is late finds it gone.
std::string ModelMoves::write_group(State& s, const Step& step, bool is_late) const {
  const Object<JobType>* job = s.jobs.server.find(0);
  std::erase_if(s.groups, [job](const GangGroup& group) {  // the garbage collector
    return job == nullptr || group.owner != job->uid;
  });
  if (job == nullptr || job->uid != step.job_uid) return "";
  const auto found =
      std::find_if(s.groups.begin(), s.groups.end(),
                   [&step](const GangGroup& group) { return group.attempt == step.pod.attempt; });
  if (step.kind == Step::kDeleteGroup) {
    if (found != s.groups.end() && !is_late) s.groups.erase(found);
    return "";
  }
  if (found == s.groups.end()) {
    s.groups.push_back({step.job_uid, step.pod.attempt, step.world_size});
    return "";
  }
  return found->pods == step.world_size ? "" : "changes a group that never changes";
}

std::string ModelMoves::create_pod(State& s, const Step& step, bool is_late, bool& is_done) const {
  const Object<JobType>* job = s.jobs.server.find(0);
  if (job != nullptr && job->uid == step.job_uid && !is_late) {
    const api::TrainingJobStatus& known = planner_.status(job->status);
    if (is_finished(known)) return "creates a pod of a finished job";
    const GangGroup group = {step.job_uid, step.group, step.world_size / step.per_pod};
    const bool has_group = std::find(s.groups.begin(), s.groups.end(), group) != s.groups.end();
    if (step.group >= 0 && !has_group) return "creates a pod whose group is not there";
  }
  for (const auto& pod : s.pods.server.items()) {
    if (pod.spec.owner != step.job_uid || pod.key.attempt != step.pod.attempt) continue;
    if (pod.spec.world_size != step.world_size) return "mixes two world sizes in one attempt";
    if (pod.spec.per_pod != step.per_pod) return "mixes two sizes of pods in one attempt";
    if (pod.spec.pod_template != step.pod_template) return "mixes two templates in one attempt";
  }
  const Answer answer = change(s, s.pods, step.pod, [&](auto& pods) {
    return pods.create(s.counters, step.pod,
                       {.owner = step.job_uid,
                        .world_size = step.world_size,
                        .per_pod = step.per_pod,
                        .pod_template = step.pod_template});
  });
  is_done =
      answer.refusal == Refusal::kNone || s.pods.server.find(step.pod)->spec.owner == step.job_uid;
  if (answer.refusal == Refusal::kNone) s.memory.created_pods = s.counters.version;
  return "";
}

std::string ModelMoves::write_status(State& s, const Step& step, bool& is_done) const {
  const Object<JobType>* job = s.jobs.server.find(0);
  if (job == nullptr) {  // the job is gone: its end will be told, there is nothing to repeat
    is_done = true;
    s.memory.requeue_after = 0;
    return "";
  }
  const int old_number = job->status;
  const Answer answer = change(s, s.jobs, 0, [&](auto& jobs) {
    return jobs.replace_status(s.counters, 0, {.uid = step.uid, .version = step.version},
                               step.status);
  });
  is_done = answer.refusal == Refusal::kNone;
  if (answer.change == Change::kNothing) return "";
  s.memory.written_job = s.counters.version;
  const api::TrainingJobStatus& old = planner_.status(old_number);
  const api::TrainingJobStatus& next = planner_.status(step.status);
  if (is_finished(old)) return "changes a finished job";
  if (next.attempt < old.attempt) return "takes an attempt back";
  if (next.restarts > max_restarts_) return "exceeds the restart budget";
  if (next.restarts > s.failures) return "charges a restart that no rank has caused";
  if (next.gang_releases > old.gang_releases) {
    if (next.restarts != old.restarts) return "charges a half gang that gives its nodes back";
    if (is_true(old, kScheduled)) return "gives back the nodes of a gang that was whole";
  }
  if (is_true(next, kSuspended) && !is_true(old, kSuspended)) {
    for (const auto& pod : s.pods.server.items()) {
      const bool is_given_up =
          is_node_gone(s, pod) || (pod.deleting && pod.grace_seconds <= kLongOverdue);
      const bool runs = pod.status.phase == PodPhase::kRunning && !is_given_up;
      if (runs && pod.spec.owner == step.job_uid) return "says Suspended while a rank runs";
    }
  }
  return "";
}

std::string ModelMoves::write(State& s, const Step& step, bool is_late, bool& is_done) const {
  if (step.kind == Step::kCreatePod) return create_pod(s, step, is_late, is_done);
  if (step.kind == Step::kStatus) return write_status(s, step, is_done);
  if (step.kind == Step::kCreateGroup || step.kind == Step::kDeleteGroup) {
    is_done = true;
    return write_group(s, step, is_late);
  }
  if (step.kind == Step::kDeletePod) {
    const Object<PodType>* pod = s.pods.server.find(step.pod);
    is_done = true;  // gone, or another object of that name: nothing to do either way
    if (pod == nullptr || pod->uid != step.uid) return "";
    if (pod->spec.owner != step.job_uid) return "deletes a pod of another owner";
    const bool may_run = pod->spec.node != 0 && !has_exited(*pod) && !is_node_gone(s, *pod);
    if (step.grace == 0 && may_run) return "forces the deletion of a pod whose node lives";
    remove_pod(s, step.pod, {.uid = step.uid, .version = {}}, step.grace);
    return "";
  }
  const ChildType::Key key = {step.kind == Step::kCreateService, step.pod.attempt};
  if (step.kind == Step::kDeleteMap) {
    const Object<ChildType>* map = s.children.server.find(key);
    is_done = true;
    if (map == nullptr || map->uid != step.uid) return "";
    if (map->spec.owner != step.job_uid) return "deletes a ConfigMap of another owner";
    change(s, s.children, key, [&](auto& children) {
      return children.remove(s.counters, key, {.uid = step.uid, .version = {}});
    });
    return "";
  }
  const Answer answer = change(s, s.children, key, [&](auto& children) {
    return children.create(s.counters, key,
                           {.owner = step.job_uid, .pod_template = step.pod_template});
  });
  const ChildType::Spec& there = s.children.server.find(key)->spec;
  // One that is ours and keeps another template is waited for: its pods go by what it says.
  is_done = answer.refusal == Refusal::kNone ||
            (there.owner == step.job_uid && there.pod_template == step.pod_template);
  if (answer.refusal == Refusal::kNone) s.memory.created_children = s.counters.version;
  return "";
}

std::string ModelMoves::arrive_late(State& s) const {
  const Step step = *s.limbo;
  s.limbo.reset();
  const OperatorMemory before = s.memory;  // nobody hears the answer
  bool is_done = false;
  std::string fault = write(s, step, true, is_done);
  s.memory = before;
  return fault;
}

std::string ModelMoves::apply(State& s, const Move& move) const {
  switch (move.kind) {
    case Move::kReconcile:
      begin_reconcile(s);
      return "";
    case Move::kLoseAnswer:
      --s.left.crashes;
      return next_write(s, move);
    case Move::kWrite:
      return next_write(s, move);
    case Move::kLimboArrives:
      return arrive_late(s);
    case Move::kDeliverJob:
      deliver(s.jobs);
      break;
    case Move::kDeliverPod:
      deliver(s.pods);
      break;
    case Move::kDeliverChild:
      deliver(s.children);
      break;
    case Move::kDeliverNode:
      s.operator_knows_node_2_gone = true;
      break;
    case Move::kTimePasses:
      pass_time(s, s.memory.wake_in);
      return "";
    default:
      if (!move_pod(s, move)) disturb(s, move);
      return "";
  }
  s.memory.is_queued = true;  // it was told something
  return "";
}

std::vector<Move> ModelMoves::moves(const State& s) const {
  std::vector<Move> all;
  all.reserve(32);
  const OperatorMemory& memory = s.memory;
  if (memory.is_busy) {
    all.push_back({.kind = Move::kWrite});
    const auto creates_pod = [&](std::size_t i) { return memory.todo[i].kind == Step::kCreatePod; };
    if (memory.todo.size() > 1 && creates_pod(0) && creates_pod(1)) {
      all.push_back({.kind = Move::kWrite, .argument = 1});
    }
  } else if (memory.is_queued) {
    all.push_back({.kind = Move::kReconcile});
  } else if (memory.wake_in > 0) {
    all.push_back({.kind = Move::kTimePasses});
  }
  if (!s.jobs.under_way.empty()) all.push_back({.kind = Move::kDeliverJob});
  if (!s.pods.under_way.empty()) all.push_back({.kind = Move::kDeliverPod});
  if (!s.children.under_way.empty()) all.push_back({.kind = Move::kDeliverChild});
  if (s.node_2_gone && !s.operator_knows_node_2_gone) all.push_back({.kind = Move::kDeliverNode});
  if (s.limbo) all.push_back({.kind = Move::kLimboArrives});
  list_cluster_moves(s, all);
  list_disturbances(s, all);
  return all;
}

std::optional<Move> ModelMoves::undisturbed_move(const State& s) const {
  State quiet = s;
  quiet.left = {};
  const std::vector<Move> all = moves(quiet);
  for (const Move::Kind kind :
       {Move::kLimboArrives, Move::kWrite, Move::kDeliverJob, Move::kDeliverPod,
        Move::kDeliverChild, Move::kDeliverNode, Move::kReconcile, Move::kFreeName, Move::kConfirm,
        Move::kCollectChild, Move::kSchedule, Move::kRun, Move::kSucceed, Move::kCollect,
        Move::kTimePasses}) {
    const auto found = std::find_if(all.begin(), all.end(),
                                    [kind](const Move& move) { return move.kind == kind; });
    if (found != all.end()) return *found;
  }
  return std::nullopt;
}

std::string ModelMoves::fault_at_rest(const State& s) const {
  const Object<JobType>* job = s.jobs.server.find(0);
  if (job == nullptr) {
    const bool is_empty = s.pods.server.items().empty() && s.children.server.items().empty();
    return is_empty ? "" : "leaves objects of a deleted job";
  }
  const api::TrainingJobStatus& status = planner_.status(job->status);
  const bool is_suspended = job->spec.suspend && is_true(status, kSuspended);
  if (!is_finished(status) && !is_suspended) return "comes to rest as " + status.state;
  if (status.gang) return "comes to rest with a group of its scheduler";
  for (const auto& pod : s.pods.server.items()) {
    if (!has_exited(pod)) return "comes to rest with a pod that runs";
  }
  return "";
}

std::string describe(const Move& move) {
  constexpr std::array kNames = {
      "reconcile",     "write",         "deliver job",  "deliver pod",
      "deliver child", "deliver node",  "time passes",  "a late write arrives",
      "schedule",      "run",           "succeed",      "confirm",
      "collect",       "collect child", "free name",    "suspend or resume",
      "scale",         "delete job",    "recreate job", "edit template",
      "regroup",       "fail",          "lose peer",    "preempt",
      "evict",         "lose node",     "take name",    "crash",
      "crash sending", "lose answer"};
  std::string text = kNames[move.kind];
  if (move.kind >= Move::kSchedule) {
    text.append(" ").append(std::to_string(move.pod.attempt));
    text.append("-").append(std::to_string(move.pod.rank));
  }
  if (move.argument != 0) text.append(" (the second)");
  return text;
}

}  // namespace lockstep::plan

#include "tests/operator/plan/model_planner.h"

#include <algorithm>
#include <stdexcept>
#include <utility>
#include <variant>

#include "operator/api/codec.h"
#include "operator/plan/names.h"
#include "operator/plan/render.h"
#include "runtime/common/exit_code.h"
#include "tests/operator/plan/model_cluster.h"

namespace lockstep::plan {
namespace {

using std::chrono::seconds;

PodView view_of(const support::Object<PodType>& pod, const State& state,
                const api::TrainingJob& job, int64_t job_uid) {
  PodView view;
  view.name = pod_name(job.meta.name, {.attempt = pod.key.attempt, .rank = pod.key.rank});
  view.uid = "pod-uid";
  view.owner_uid = pod.spec.owner == job_uid ? job.meta.uid : "another";
  view.attempt = pod.key.attempt;
  view.rank = pod.key.rank;
  view.phase = pod.status.phase;
  view.deleting = pod.deleting;
  if (pod.deleting) view.deletion_deadline = kStart + seconds(pod.grace_seconds);
  if (pod.spec.node != 0) {
    const bool is_gone = pod.spec.node == 2 && state.operator_knows_node_2_gone;
    view.node = pod.spec.node == 2 ? "node-2" : "node-1";
    view.bound_at = kStart - seconds(pod.spec.bound_ago);
    view.node_state = is_gone ? NodeState::kGone : NodeState::kReady;
  }
  if (pod.status.phase != PodPhase::kSucceeded && pod.status.phase != PodPhase::kFailed) {
    return view;
  }
  view.exit = ContainerExit{.exit_code = pod.status.exit_code,
                            .reason = pod.status.exit_code == 0 ? "Completed" : "Error",
                            .finished_at = kStart - seconds(pod.status.ended_ago)};
  if (const auto typed = common::find_exit_code(pod.status.exit_code)) {
    const std::string reason(typed->reason);
    view.exit->message = R"({"rank":0,"step":1,"reason":")" + reason + R"(","message":"m"})";
  }
  return view;
}

std::string key_of(const State& state) {
  const auto& job = state.jobs.cache.items().front();
  std::string key;
  const auto add = [&key](int64_t small) {
    key.push_back(static_cast<char>(small));
    key.push_back(static_cast<char>(small >> 8));
  };
  add(job.status);
  add(job.generation);
  add(job.spec.ranks * 2 + (job.spec.suspend ? 1 : 0));
  add(job.spec.per_pod * 16 + job.spec.pod_template);
  add(state.operator_knows_node_2_gone ? 1 : 0);
  for (const auto& pod : state.pods.cache.items()) {
    add(pod.key.attempt * 16 + pod.key.rank);
    add((pod.spec.owner == job.uid ? 1 : 0) + (pod.deleting ? 2 : 0) + pod.spec.node * 4 +
        static_cast<int>(pod.status.phase) * 16);
    add(pod.spec.bound_ago);
    add(pod.grace_seconds);
    add(pod.status.exit_code);
    add(pod.status.ended_ago);
  }
  add(-1);
  for (const auto& child : state.children.cache.items()) {
    add((child.key.attempt * 16 + child.spec.pod_template) * 4 + (child.key.is_service ? 1 : 0) +
        (child.spec.owner == job.uid ? 2 : 0));
  }
  return key;
}

int number_in(const nlohmann::json& pod, const char* name) {
  for (const nlohmann::json& variable : pod.at("spec").at("containers").at(0).at("env")) {
    if (variable.at("name") == name) return std::stoi(variable.at("value").get<std::string>());
  }
  throw std::logic_error(std::string("a pod without ") + name);
}

// The templates by number; 0 is none.
nlohmann::json template_of(int number) {
  if (number == 0) return nlohmann::json::object();
  return {{"spec", {{"nodeSelector", {{"template", std::to_string(number)}}}}}};
}

// The number of a template, or of that from which a pod was made.
int template_number(const nlohmann::json& pod) {
  const nlohmann::json spec = pod.value("spec", nlohmann::json::object());
  const nlohmann::json selector = spec.value("nodeSelector", nlohmann::json::object());
  return std::stoi(selector.value("template", "0"));
}

PodType::Key pod_key(const std::string& job, const std::string& name) {
  const auto identity = parse_pod_name(job, name);
  if (!identity) throw std::logic_error("a pod with a strange name: " + name);
  return {static_cast<int>(identity->attempt), static_cast<int>(identity->rank)};
}

int attempt_of(const std::string& job, const std::string& config_map) {
  const auto attempt = parse_config_map_name(job, config_map);
  if (!attempt) throw std::logic_error("a ConfigMap with a strange name: " + config_map);
  return static_cast<int>(*attempt);
}

// "demo-job-uid-2"
int attempt_of_group(const std::string& name) {
  return std::stoi(name.substr(name.rfind('-') + 1));
}

// -1 = none
int group_of_pod(const nlohmann::json& pod) {
  const nlohmann::json group = pod.at("spec").value("schedulingGroup", nlohmann::json::object());
  return group.empty() ? -1 : attempt_of_group(group.at("podGroupName").get<std::string>());
}

struct ToStep {
  const std::string& job;

  Step operator()(const CreateConfigMap& action) const {
    const std::string kept = action.body.at("data").value(kTemplateKey, "{}");
    return {.kind = Step::kCreateMap,
            .pod = {attempt_of(job, action.name), 0},
            .pod_template = template_number(nlohmann::json::parse(kept))};
  }
  Step operator()(const CreateService& /*action*/) const { return {.kind = Step::kCreateService}; }
  Step operator()(const CreatePod& action) const {
    return {.kind = Step::kCreatePod,
            .pod = pod_key(job, action.name),
            .group = group_of_pod(action.body),
            .world_size = number_in(action.body, "WORLD_SIZE"),
            .per_pod = number_in(action.body, "LOCAL_WORLD_SIZE"),
            .pod_template = template_number(action.body)};
  }
  Step operator()(const DeletePod& action) const {
    return {
        .kind = Step::kDeletePod, .pod = pod_key(job, action.name), .grace = action.grace_seconds};
  }
  Step operator()(const DeleteConfigMap& action) const {
    return {.kind = Step::kDeleteMap, .pod = {attempt_of(job, action.name), 0}};
  }
  Step operator()(const EndPodGroup& /*action*/) const {
    throw std::logic_error("a job in no queue has a group");
  }
  Step operator()(const CreatePodGroup& action) const {
    const nlohmann::json& gang = action.body.at("spec").at("schedulingPolicy").at("gang");
    return {.kind = Step::kCreateGroup,
            .pod = {attempt_of_group(action.name), 0},
            .world_size = gang.at("minCount").get<int>()};
  }
  Step operator()(const DeletePodGroup& action) const {
    return {.kind = Step::kDeleteGroup, .pod = {attempt_of_group(action.name), 0}};
  }
  Step operator()(const DeleteJob& /*action*/) const {
    throw std::logic_error("a job without a time to live is deleted");
  }
};

}  // namespace

ModelPlanner::ModelPlanner(api::TrainingJob job, GangApis apis)
    : job_(std::move(job)), apis_(std::move(apis)) {
  number_of({});
}

JobType::Spec ModelPlanner::first_spec() const {
  return {.ranks = static_cast<int>(job_.spec.ranks),
          .per_pod = static_cast<int>(job_.spec.ranks_per_pod)};
}

// Times that no decision reads are set to one value; what is dated stays within reach.
int ModelPlanner::number_of(api::TrainingJobStatus status) {
  for (api::Condition& condition : status.conditions) condition.last_transition_time = kStart;
  if (status.start_time) status.start_time = kStart;
  if (status.completion_time) status.completion_time = kStart;
  if (status.first_failure) status.first_failure->time = kStart;
  if (status.restart_not_before) {
    status.restart_not_before = std::max(*status.restart_not_before, kStart);
  }
  status.goodput.reset();
  const auto [place, is_new] =
      numbers_.emplace(api::encode_status(status).dump(), static_cast<int>(statuses_.size()));
  if (is_new) statuses_.push_back(std::move(status));
  return place->second;
}

int ModelPlanner::age(int number, int seconds_later) {
  api::TrainingJobStatus older = status(number);
  if (!older.restart_not_before) return number;
  *older.restart_not_before -= seconds(seconds_later);
  return number_of(std::move(older));
}

ModelPlanner::Planned ModelPlanner::plan_for(const State& state) {
  const auto& cached = state.jobs.cache.items().front();
  api::TrainingJob job = job_;
  job.meta.generation = cached.generation;
  job.spec.suspend = cached.spec.suspend;
  job.spec.ranks = cached.spec.ranks;
  job.spec.ranks_per_pod = cached.spec.per_pod;
  job.spec.pod_template = template_of(cached.spec.pod_template);
  job.status = status(cached.status);
  Observation seen;
  seen.gang_apis = apis_;
  for (const auto& pod : state.pods.cache.items()) {
    seen.pods.push_back(view_of(pod, state, job, cached.uid));
  }
  for (const auto& child : state.children.cache.items()) {
    auto& kind = child.key.is_service ? seen.services : seen.config_maps;
    kind.push_back({.name = child.key.is_service
                                ? service_name(job.meta.name)
                                : config_map_name(job.meta.name, child.key.attempt),
                    .uid = "child-uid",
                    .owner_uid = child.spec.owner == cached.uid ? job.meta.uid : "another",
                    .pod_template = template_text(template_of(child.spec.pod_template))});
  }
  const Plan next = plan(job, seen, {.runtime_image = "example.test/runtime:1"}, kStart);
  Planned planned;
  for (const Action& action : next.actions) {
    planned.steps.push_back(std::visit(ToStep{job.meta.name}, action));
  }
  planned.status = number_of(next.status);
  planned.requeue_after = next.requeue_after ? static_cast<int>(next.requeue_after->count()) : 0;
  return planned;
}

Decision ModelPlanner::decide(const State& state) {
  const auto [place, is_new] = plans_.try_emplace(key_of(state));
  if (is_new) place->second = plan_for(state);
  const Planned& planned = place->second;
  const auto& job = state.jobs.cache.items().front();
  Decision decision = {.steps = planned.steps, .requeue_after = planned.requeue_after};
  for (Step& step : decision.steps) {
    step.job_uid = job.uid;
    if (step.kind == Step::kDeletePod) step.uid = state.pods.cache.find(step.pod)->uid;
    if (step.kind == Step::kDeleteMap) {
      step.uid = state.children.cache.find({false, step.pod.attempt})->uid;
    }
  }
  if (planned.status != job.status) {
    decision.steps.push_back({.kind = Step::kStatus,
                              .status = planned.status,
                              .job_uid = job.uid,
                              .uid = job.uid,
                              .version = job.version});
  }
  return decision;
}

}  // namespace lockstep::plan

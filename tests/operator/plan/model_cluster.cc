#include "tests/operator/plan/model_cluster.h"

#include <algorithm>
#include <stdexcept>
#include <utility>
#include <variant>

#include "operator/api/kueue_names.h"
#include "operator/plan/names.h"
#include "operator/plan/render.h"
#include "runtime/common/schema.h"
#include "runtime/common/train_config.h"
#include "runtime/common/train_fields.h"

namespace lockstep::plan {
namespace {

template <typename Children>
auto by_name(Children& children, const std::string& name) {
  return std::find_if(children.begin(), children.end(),
                      [&](const auto& child) { return child.name == name; });
}

api::TrainingJob bare_job(int64_t ranks) {
  api::TrainingJob job;
  job.meta = {.name = "demo", .ns = "team", .uid = "job-uid", .generation = 1};
  job.spec.ranks = ranks;
  return job;
}

nlohmann::json small_train() {
  const nlohmann::json given = {{"model",
                                 {{"config",
                                   {{"model_type", "llama"},
                                    {"vocab_size", 256},
                                    {"hidden_size", 64},
                                    {"intermediate_size", 128},
                                    {"num_hidden_layers", 2},
                                    {"num_attention_heads", 4}}}}},
                                {"data", {{"train", "/data/text"}, {"sequenceLength", 64}}},
                                {"batch", {{"globalBatchSize", 8}, {"microBatchSize", 1}}},
                                {"steps", 100}};
  const common::Checked checked =
      common::check_and_default(common::train_fields(), given, "spec.train", nullptr);
  return common::resolve_train(checked.value, 1).train;
}

}  // namespace

api::TrainingJob training_job(int64_t ranks) {
  static const nlohmann::json train = small_train();
  api::TrainingJob job = bare_job(ranks);
  job.spec.train = train;
  return job;
}

api::TrainingJob command_job(int64_t ranks) {
  api::TrainingJob job = bare_job(ranks);
  job.spec.command = {"python", "train.py"};
  job.spec.image = "example.test/mine:1";
  return job;
}

void ModelCluster::apply(const Action& action) {
  const std::string uid = "uid-" + std::to_string(next_uid_++);
  const std::string& owner = job.meta.uid;
  if (const auto* create = std::get_if<CreateConfigMap>(&action)) {
    if (by_name(seen.config_maps, create->name) == seen.config_maps.end()) {
      seen.config_maps.push_back({.name = create->name,
                                  .uid = uid,
                                  .owner_uid = owner,
                                  .pod_template = create->body["data"].value(kTemplateKey, "")});
    }
  } else if (const auto* service = std::get_if<CreateService>(&action)) {
    if (by_name(seen.services, service->name) == seen.services.end()) {
      seen.services.push_back({.name = service->name, .uid = uid, .owner_uid = owner});
    }
  } else if (const auto* pod_to_create = std::get_if<CreatePod>(&action)) {
    const auto identity = parse_pod_name(job.meta.name, pod_to_create->name);
    if (!identity) throw std::logic_error("pod with a strange name: " + pod_to_create->name);
    if (by_name(seen.pods, pod_to_create->name) == seen.pods.end()) {
      PodView& pod = add_pod(identity->attempt, identity->rank, owner);
      pod.created_at = now;
      const auto& labels = pod_to_create->body["metadata"]["labels"];
      pod.pod_group = labels.value(api::kPodGroupLabel, "");
      pod.is_gated = pod.is_held = !pod.pod_group.empty();  // by the queue's webhook
    }
  } else if (const auto* doomed = std::get_if<DeletePod>(&action)) {
    const auto found = by_name(seen.pods, doomed->name);
    if (found == seen.pods.end() || found->uid != doomed->uid) return;
    if (doomed->grace_seconds == 0) {
      seen.pods.erase(found);
      return;
    }
    found->deleting = true;
    found->deletion_deadline = now + std::chrono::seconds(doomed->grace_seconds);
  } else if (const auto* group = std::get_if<CreatePodGroup>(&action)) {
    pod_groups[group->name] = group->body;
    seen.lacks_pod_group = false;
  } else if (const auto* left = std::get_if<DeletePodGroup>(&action)) {
    pod_groups.erase(left->name);
  } else if (const auto* mark = std::get_if<EndPodGroup>(&action)) {
    const auto found = by_name(seen.pods, mark->name);
    if (found != seen.pods.end() && found->uid == mark->uid) found->ends_group = true;
  } else if (const auto* old = std::get_if<DeleteConfigMap>(&action)) {
    const auto found = by_name(seen.config_maps, old->name);
    if (found != seen.config_maps.end() && found->uid == old->uid) seen.config_maps.erase(found);
  } else if (const auto* end = std::get_if<DeleteJob>(&action)) {
    if (end->uid == job.meta.uid) job.meta.deletion_time = now;
  }
}

void ModelCluster::apply(const Plan& plan, std::size_t num_actions) {
  for (std::size_t i = 0; i < std::min(num_actions, plan.actions.size()); ++i) {
    apply(plan.actions[i]);
  }
  if (num_actions >= plan.actions.size()) job.status = plan.status;
}

int ModelCluster::settle() {
  constexpr int kNever = 100;
  for (int round = 0; round < kNever; ++round) {
    const Plan next = decide();
    if (next.actions.empty() && next.status == job.status) return round;
    apply(next);
  }
  return kNever;
}

PodView& ModelCluster::pod(int64_t rank) {
  const auto found =
      by_name(seen.pods, pod_name(job.meta.name, {.attempt = job.status.attempt, .rank = rank}));
  if (found == seen.pods.end()) throw std::logic_error("no pod of rank " + std::to_string(rank));
  return *found;
}

PodView& ModelCluster::add_pod(int64_t attempt, int64_t rank, const std::string& owner_uid) {
  PodView pod;
  pod.name = pod_name(job.meta.name, {.attempt = attempt, .rank = rank});
  pod.uid = "uid-" + std::to_string(next_uid_++);
  pod.owner_uid = owner_uid;
  pod.attempt = attempt;
  pod.rank = rank;
  seen.pods.push_back(pod);
  return seen.pods.back();
}

void ModelCluster::run_all() {
  for (int64_t rank = 0; rank < job.status.ranks.desired; rank += job.status.ranks.per_pod) {
    pod(rank).node = "node-" + std::to_string(rank);
    pod(rank).phase = PodPhase::kRunning;
  }
}

void ModelCluster::end(int64_t rank, int64_t exit_code, const std::string& message) {
  PodView& ended = pod(rank);
  ended.phase = exit_code == 0 ? PodPhase::kSucceeded : PodPhase::kFailed;
  ended.exit = ContainerExit{.exit_code = exit_code,
                             .reason = exit_code == 0 ? "Completed" : "Error",
                             .message = message,
                             .finished_at = now};
}

void ModelCluster::remove_pod(const std::string& name) {
  std::erase_if(seen.pods, [&](const PodView& pod) { return pod.name == name; });
}

void ModelCluster::remove_deleting_pods() {
  std::erase_if(seen.pods, [](const PodView& pod) { return pod.deleting; });
}

ModelCluster running_cluster(api::TrainingJob job) {
  ModelCluster cluster(std::move(job));
  cluster.settle();
  cluster.run_all();
  cluster.settle();
  return cluster;
}

}  // namespace lockstep::plan

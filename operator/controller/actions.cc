#include "operator/controller/actions.h"

#include <algorithm>
#include <future>
#include <optional>
#include <span>
#include <string_view>
#include <utility>
#include <variant>

#include "operator/api/codec.h"
#include "operator/api/kueue_names.h"
#include "operator/controller/pod_group_actions.h"
#include "operator/controller/projection.h"
#include "operator/kube/object_key.h"
#include "operator/kube/warning.h"

namespace lockstep::control {

using nlohmann::json;

namespace {

const kube::ResourceType kPods{"", "v1", "pods"};
const kube::ResourceType kServices{"", "v1", "services"};
const kube::ResourceType kConfigMaps{"", "v1", "configmaps"};
const kube::ResourceType kJobs{api::kGroup, api::kVersion, api::kPlural};

const kube::ResourceType& type_of(ChildKind kind) {
  switch (kind) {
    case ChildKind::kPod:
      return kPods;
    case ChildKind::kService:
      return kServices;
    case ChildKind::kConfigMap:
      return kConfigMaps;
  }
  return kPods;
}

struct Child {
  ChildKind kind;
  std::string name;
  const json* body = nullptr;
};

// What one creation came to.
struct Created {
  ChildKind kind = ChildKind::kPod;
  common::Result<void> result;
  std::optional<TakenName> taken;
  std::string version;  // of the new object; empty if it is not of this call
  std::optional<std::chrono::seconds> retry_after;
  kube::Warnings warnings{};  // of an object that was created
};

// Whose is the object that has the child's name: ours from before a crash, or somebody else's? Our
// stores may be behind, so ask.
Created resolve_existing(kube::Client& client, const api::TrainingJob& job, const Child& child) {
  const auto found = client.get({type_of(child.kind), job.meta.ns, child.name, ""});
  if (const auto* error = std::get_if<kube::ApiError>(&found)) {
    common::Error why = error->error;
    // Gone between two calls: its name is free again.
    if (why.code == common::ErrorCode::kNotFound) why.code = common::ErrorCode::kConflict;
    return {child.kind, why, std::nullopt, "", error->retry_after};
  }
  const json& object = std::get<json>(found);
  const plan::ChildView view = child_view(object);
  if (view.owner_uid == job.meta.uid) {
    // Ours, of a plan from an older spec whose answer was lost: pods go by what it says, so plan
    // again once the stores show it.
    const bool differs = child.kind == ChildKind::kConfigMap &&
                         object.value("data", json()) != child.body->value("data", json());
    if (!differs) return {child.kind, {}, std::nullopt, "", {}};
    return {child.kind,
            common::Error{common::ErrorCode::kConflict,
                          child.name + " exists with other contents; it is ours", ""},
            std::nullopt,
            "",
            {}};
  }
  if (job_of(object) == kube::ObjectKey{job.meta.ns, job.meta.name}) {
    return {child.kind,
            common::Error{common::ErrorCode::kConflict,
                          child.name + " still exists and belongs to another owner", ""},
            std::nullopt,
            "",
            {}};
  }
  return {child.kind, {}, TakenName{child.kind, view}, "", {}};
}

Created create(kube::Client& client, const api::TrainingJob& job, const Child& child) {
  kube::Warnings warnings;
  const auto answer =
      client.create({type_of(child.kind), job.meta.ns, "", ""}, *child.body, warnings);
  if (const auto* object = std::get_if<json>(&answer)) {
    return {child.kind, {}, std::nullopt, kube::version_of(*object), {}, std::move(warnings)};
  }
  const auto& refused = std::get<kube::ApiError>(answer);
  const common::Error& error = refused.error;
  if (error.code == common::ErrorCode::kAlreadyExists) return resolve_existing(client, job, child);
  return {child.kind, error, std::nullopt, "", refused.retry_after};
}

// Takes in what came of a deletion or of a mark, each of an object that is named by its UID.
void settle(const kube::ApiResult<json>& answer, ApplyOutcome& outcome) {
  const auto* error = std::get_if<kube::ApiError>(&answer);
  if (error == nullptr) {
    ++outcome.applied;
    return;
  }
  const common::ErrorCode code = error->error.code;
  // Gone, or replaced by another object of that name: not ours to touch any more.
  if (code == common::ErrorCode::kNotFound || code == common::ErrorCode::kConflict) return;
  outcome.result = error->error;
  outcome.retry_after = error->retry_after;
}

void remove(kube::Client& client, const kube::ResourcePath& path,
            const kube::DeleteOptions& options, ApplyOutcome& outcome) {
  settle(client.remove(path, options), outcome);
}

void take(ApplyOutcome& outcome, Created created) {
  for (std::string& text : created.warnings) {
    kube::Warnings& all = outcome.warnings;
    if (std::find(all.begin(), all.end(), text) != all.end()) continue;
    if (all.size() < kube::kMaxWarnings) {
      all.push_back(std::move(text));
    } else if (all.size() == kube::kMaxWarnings) {
      all.emplace_back("and more warnings");
    }
  }
  if (created.taken) outcome.taken_names.push_back(std::move(*created.taken));
  if (!created.version.empty()) {
    ++outcome.applied;
    std::string& newest = outcome.created_versions[created.kind];
    if (newest.empty() || kube::is_older(newest, created.version)) newest = created.version;
  }
  if (created.result || !outcome.result) return;
  outcome.result = created.result;
  outcome.retry_after = created.retry_after;
}

// Creates the pods of `actions` in batches of 1, 2, 4, ... up to 16 at once.
void create_pods(kube::Client& client, const api::TrainingJob& job,
                 std::span<const plan::Action> actions, ApplyOutcome& outcome) {
  size_t batch = 1;
  while (!actions.empty() && outcome.result && outcome.taken_names.empty()) {
    const size_t count = std::min(batch, actions.size());
    std::vector<std::future<Created>> running;
    for (const plan::Action& action : actions.first(count)) {
      const auto& pod = std::get<plan::CreatePod>(action);
      running.push_back(std::async(std::launch::async, [&client, &job, &pod] {
        return create(client, job, {ChildKind::kPod, pod.name, &pod.body});
      }));
    }
    for (std::future<Created>& one : running) take(outcome, one.get());
    actions = actions.subspan(count);
    batch = std::min(2 * batch, size_t{16});
  }
}

struct ApplyOne {
  kube::Client& client;
  const api::TrainingJob& job;
  ApplyOutcome& outcome;

  void operator()(const plan::CreateConfigMap& action) const {
    take(outcome, create(client, job, {ChildKind::kConfigMap, action.name, &action.body}));
  }
  void operator()(const plan::CreateService& action) const {
    take(outcome, create(client, job, {ChildKind::kService, action.name, &action.body}));
  }
  void operator()(const plan::CreatePodGroup& action) const {
    take_pod_group(bring_pod_group(client, job, action));
  }
  void operator()(const plan::DeletePodGroup& action) const {
    take_pod_group(remove_pod_group(client, job, action));
  }
  void operator()(const plan::CreatePod& action) const {
    take(outcome, create(client, job, {ChildKind::kPod, action.name, &action.body}));
  }
  void operator()(const plan::DeletePod& action) const {
    kube::DeleteOptions options;
    options.grace_period_seconds = action.grace_seconds;
    options.uid = action.uid;
    remove(client, {kPods, job.meta.ns, action.name, ""}, options, outcome);
  }
  void operator()(const plan::EndPodGroup& action) const {
    const json mark = {
        {"metadata", {{"uid", action.uid}, {"annotations", {{api::kRetriableInGroup, "false"}}}}}};
    const auto answer =
        client.patch({kPods, job.meta.ns, action.name, ""}, kube::PatchType::kMerge, mark);
    settle(answer, outcome);
  }
  // No store holds pod groups: there is nothing to wait for.
  void take_pod_group(PodGroupWrite write) const {
    if (write.has_changed) ++outcome.applied;
    take(outcome, {ChildKind::kConfigMap, write.result, std::nullopt, "", write.retry_after,
                   std::move(write.warnings)});
  }
  void operator()(const plan::DeleteConfigMap& action) const {
    kube::DeleteOptions options;
    options.uid = action.uid;
    remove(client, {kConfigMaps, job.meta.ns, action.name, ""}, options, outcome);
  }
  void operator()(const plan::DeleteJob& action) const {
    kube::DeleteOptions options;
    options.uid = action.uid;
    options.resource_version = action.resource_version;
    options.propagation = "Background";
    remove(client, {kJobs, job.meta.ns, job.meta.name, ""}, options, outcome);
  }
};

}  // namespace

ApplyOutcome apply_in_order(kube::Client& client, const api::TrainingJob& job,
                            const std::vector<plan::Action>& actions) {
  ApplyOutcome outcome;
  const auto is_pod = [](const plan::Action& action) {
    return std::holds_alternative<plan::CreatePod>(action);
  };
  std::span<const plan::Action> rest(actions);
  while (!rest.empty() && outcome.result && outcome.taken_names.empty()) {
    if (!is_pod(rest.front())) {
      std::visit(ApplyOne{client, job, outcome}, rest.front());
      rest = rest.subspan(1);
      continue;
    }
    const auto end = std::find_if_not(rest.begin(), rest.end(), is_pod);
    const auto count = static_cast<size_t>(end - rest.begin());
    create_pods(client, job, rest.first(count), outcome);
    rest = rest.subspan(count);
  }
  return outcome;
}

bool is_ending(const common::Error& error) {
  // The API server answers 403 while a namespace is being deleted; only its text tells that from a
  // quota. Source: kubernetes/apiserver pkg/admission/plugin/namespace/lifecycle/admission.go.
  constexpr std::string_view kTerminating = "because it is being terminated";
  return error.code == common::ErrorCode::kNotFound ||
         error.message.find(kTerminating) != std::string::npos;
}

kube::ApiResult<std::string> write_status(kube::Client& client, const api::TrainingJob& job,
                                          const api::TrainingJobStatus& status) {
  const json body = {{"apiVersion", api::kApiVersion},
                     {"kind", api::kKind},
                     {"metadata",
                      {{"name", job.meta.name},
                       {"namespace", job.meta.ns},
                       {"uid", job.meta.uid},
                       {"resourceVersion", job.meta.resource_version}}},
                     {"status", api::encode_status(status)}};
  const auto answer = client.replace({kJobs, job.meta.ns, job.meta.name, "status"}, body);
  if (const auto* error = std::get_if<kube::ApiError>(&answer)) return *error;
  return kube::version_of(std::get<json>(answer));
}

}  // namespace lockstep::control

#include "operator/controller/pod_group_actions.h"

#include <string>
#include <utility>
#include <variant>

#include "operator/api/gang_names.h"
#include "operator/api/json_read.h"
#include "operator/controller/projection.h"
#include "operator/kube/object_key.h"

namespace lockstep::control {

using nlohmann::json;

namespace {

PodGroupWrite failed(const kube::ApiError& error) {
  return {error.error, false, error.retry_after, {}};
}

// The server knows the type no more: not the end of the job, which a plain 404 would be.
bool is_type_unserved(const kube::ApiError& error) {
  return error.http_status == 404 && error.reason.empty();
}

// What of `wanted` the group does not say; null if it says all.
json lacking(const json& wanted, const json& found) {
  json missing;
  for (const auto& [key, value] : wanted.items()) {
    if (api::member(found, key.c_str()) != value) missing[key] = value;
  }
  return missing;
}

// Of an attempt before: as many pods as there are now, of what they ask for now.
PodGroupWrite update(kube::Client& client, const kube::ResourcePath& path, const json& group,
                     const json& wanted) {
  const json missing = lacking(wanted, api::member(group, "spec"));
  if (missing.is_null()) return {};
  const json change = {{"metadata",
                        {{"uid", api::text(group["metadata"], "uid")},
                         {"resourceVersion", kube::version_of(group)}}},
                       {"spec", missing}};
  const auto answer = client.patch(path, kube::PatchType::kMerge, change);
  if (const auto* error = std::get_if<kube::ApiError>(&answer)) return failed(*error);
  return {{}, true, std::nullopt, {}};
}

}  // namespace

kube::ResourceType pod_group_type(const std::string& api_version) {
  const std::size_t slash = api_version.find('/');
  return {api_version.substr(0, slash), api_version.substr(slash + 1), api::kPodGroupPlural};
}

PodGroupWrite bring_pod_group(kube::Client& client, const api::TrainingJob& job,
                              const plan::CreatePodGroup& group) {
  const std::string api_version = api::text(group.body, "apiVersion");
  const kube::ResourceType type = pod_group_type(api_version);
  PodGroupWrite created;
  const auto answer = client.create({type, job.meta.ns, "", ""}, group.body, created.warnings);
  if (std::holds_alternative<json>(answer)) {
    created.has_changed = true;
    return created;
  }
  const kube::ApiError& refused = std::get<kube::ApiError>(answer);
  if (is_type_unserved(refused)) {
    return {common::Error{common::ErrorCode::kUnavailable,
                          "the API server serves no PodGroup of " + api_version + " any more", ""},
            false,
            std::nullopt,
            {}};
  }
  if (refused.error.code != common::ErrorCode::kAlreadyExists) return failed(refused);
  const kube::ResourcePath path = {type, job.meta.ns, group.name, ""};
  const auto found = client.get(path);
  if (const auto* error = std::get_if<kube::ApiError>(&found)) return failed(*error);
  const json& object = std::get<json>(found);
  const plan::ChildView view = child_view(object);
  if (view.owner_uid == job.meta.uid && !view.deleting) {
    return update(client, path, object, group.body.at("spec"));
  }
  return {common::Error{common::ErrorCode::kConflict,
                        "PodGroup " + group.name +
                            (view.deleting ? " is being deleted" : " belongs to another owner"),
                        ""},
          false,
          std::nullopt,
          {}};
}

PodGroupWrite remove_pod_group(kube::Client& client, const api::TrainingJob& job,
                               const plan::DeletePodGroup& group) {
  const kube::ResourcePath path = {pod_group_type(group.api_version), job.meta.ns, group.name, ""};
  const auto found = client.get(path);
  if (const auto* error = std::get_if<kube::ApiError>(&found)) {
    const bool is_gone = error->error.code == common::ErrorCode::kNotFound;
    return is_gone ? PodGroupWrite{} : failed(*error);
  }
  const plan::ChildView view = child_view(std::get<json>(found));
  if (view.owner_uid != job.meta.uid || view.deleting) return {};
  kube::DeleteOptions options;
  options.uid = view.uid;
  const auto answer = client.remove(path, options);
  if (const auto* error = std::get_if<kube::ApiError>(&answer)) {
    const common::ErrorCode code = error->error.code;
    const bool is_gone =
        code == common::ErrorCode::kNotFound || code == common::ErrorCode::kConflict;
    return is_gone ? PodGroupWrite{} : failed(*error);
  }
  return {{}, true, std::nullopt, {}};
}

}  // namespace lockstep::control

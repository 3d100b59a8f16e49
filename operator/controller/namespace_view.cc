#include "operator/controller/namespace_view.h"

#include <optional>
#include <utility>

#include "operator/api/codec.h"
#include "operator/plan/names.h"

namespace lockstep::control {

namespace {

template <typename T>
std::string group_of(const T& child) {
  return child.job;
}

kube::WatchTarget target(kube::ResourceType type, const NamespaceView::Options& options,
                         std::string label_selector) {
  kube::WatchTarget result;
  result.path = {std::move(type), options.ns, "", ""};
  result.selectors.label_selector = std::move(label_selector);
  result.settings = options.watch;
  result.on_trouble = options.on_trouble;
  return result;
}

// Our children of a core type, by the label that they have, whatever its value.
kube::WatchTarget children(const char* plural, const NamespaceView::Options& options) {
  return target({"", "v1", plural}, options, plan::kJobNameLabel);
}

kube::Informer<api::TrainingJob>::Callbacks job_callbacks(const NamespaceView::Options& options) {
  kube::Informer<api::TrainingJob>::Callbacks jobs;
  jobs.project = [trouble = options.on_trouble](
                     const nlohmann::json& object) -> std::optional<api::TrainingJob> {
    common::Result<api::TrainingJob> job = api::decode_job(object);
    if (job) return std::move(job).value();
    trouble("a TrainingJob cannot be read: " + job.error().message);
    return std::nullopt;
  };
  jobs.on_change = [on_change = options.on_change](const kube::ObjectKey& key, const auto*,
                                                   const auto*) { on_change(key); };
  return jobs;
}

// Callbacks of a child type: project, and wake the job that the child's group names.
template <typename T>
typename kube::Informer<T>::Callbacks child_callbacks(
    std::optional<T> (*project)(const nlohmann::json&), const NamespaceView::Options& options) {
  return {project, [on_change = options.on_change](const kube::ObjectKey& key, const T* before,
                                                   const T* after) {
            const std::string& job = (after != nullptr ? after : before)->job;
            on_change({key.ns, job.substr(job.find('/') + 1)});
          }};
}

}  // namespace

NamespaceView::NamespaceView(kube::Client& client, const Options& options)
    : pods_(group_of<ObservedPod>),
      services_(group_of<ObservedChild>),
      config_maps_(group_of<ObservedChild>),
      job_informer_(client, target({api::kGroup, api::kVersion, api::kPlural}, options, ""), jobs_,
                    job_callbacks(options)),
      pod_informer_(client, children("pods", options), pods_,
                    child_callbacks<ObservedPod>(project_pod, options)),
      service_informer_(client, children("services", options), services_,
                        child_callbacks<ObservedChild>(project_child, options)),
      config_map_informer_(client, children("configmaps", options), config_maps_,
                           child_callbacks<ObservedChild>(project_child, options)) {}

bool NamespaceView::has_synced() const {
  return job_informer_.has_synced() && pod_informer_.has_synced() &&
         service_informer_.has_synced() && config_map_informer_.has_synced();
}

bool NamespaceView::has_seen(ChildKind kind, const std::string& version) const {
  switch (kind) {
    case ChildKind::kPod:
      return !kube::is_older(pods_.version(), version);
    case ChildKind::kService:
      return !kube::is_older(services_.version(), version);
    case ChildKind::kConfigMap:
      return !kube::is_older(config_maps_.version(), version);
  }
  return true;
}

}  // namespace lockstep::control

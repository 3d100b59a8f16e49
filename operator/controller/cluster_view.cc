#include "operator/controller/cluster_view.h"

#include <utility>

#include "operator/api/codec.h"
#include "operator/plan/names.h"

namespace lockstep::control {

namespace {

template <typename T>
std::string group_of(const T& child) {
  return child.job;
}

kube::WatchTarget target(kube::ResourceType type, const ClusterView::Options& options,
                         std::string label_selector) {
  kube::WatchTarget result;
  result.path = {std::move(type), options.ns, "", ""};
  result.selectors.label_selector = std::move(label_selector);
  result.settings = options.watch;
  result.on_trouble = options.on_trouble;
  return result;
}

// Callbacks of a child type: project, and wake the job that the child's group names.
template <typename T>
typename kube::Informer<T>::Callbacks child_callbacks(
    std::optional<T> (*project)(const nlohmann::json&),
    const std::function<void(const kube::ObjectKey&)>& on_change) {
  return {project, [on_change](const kube::ObjectKey& key, const T* before, const T* after) {
            const std::string& job = (after != nullptr ? after : before)->job;
            on_change({key.ns, job.substr(job.find('/') + 1)});
          }};
}

}  // namespace

ClusterView::ClusterView(kube::Client& client, Options options)
    : on_change_(options.on_change),
      pods_(group_of<ObservedPod>),
      services_(group_of<ObservedChild>),
      config_maps_(group_of<ObservedChild>) {
  if (options.watches_nodes) {
    kube::Informer<ObservedNode>::Callbacks nodes;
    nodes.project = [](const nlohmann::json& object) {
      return std::optional(project_node(object));
    };
    nodes.on_change = [this](const kube::ObjectKey& key, const ObservedNode* before,
                             const ObservedNode* after) {
      const bool was_ready = before != nullptr && before->is_ready;
      if (was_ready && (after == nullptr || !after->is_ready)) wake_jobs_on(key.name);
    };
    kube::WatchTarget all = target({"", "v1", "nodes"}, options, "");
    all.path.ns.clear();
    node_informer_ = std::make_unique<kube::Informer<ObservedNode>>(client, all, nodes_, nodes);
  }
  const std::string ours = plan::kJobNameLabel;  // bare: objects that have the label at all
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
  // Jobs first: a store of children that is newer than that of jobs never shows a child whose job
  // was not there yet as an orphan.
  job_informer_ = std::make_unique<kube::Informer<api::TrainingJob>>(
      client, target({api::kGroup, api::kVersion, api::kPlural}, options, ""), jobs_, jobs);
  pod_informer_ = std::make_unique<kube::Informer<ObservedPod>>(
      client, target({"", "v1", "pods"}, options, ours), pods_,
      child_callbacks<ObservedPod>(project_pod, options.on_change));
  service_informer_ = std::make_unique<kube::Informer<ObservedChild>>(
      client, target({"", "v1", "services"}, options, ours), services_,
      child_callbacks<ObservedChild>(project_child, options.on_change));
  config_map_informer_ = std::make_unique<kube::Informer<ObservedChild>>(
      client, target({"", "v1", "configmaps"}, options, ours), config_maps_,
      child_callbacks<ObservedChild>(project_child, options.on_change));
}

bool ClusterView::has_synced() const {
  return job_informer_->has_synced() && pod_informer_->has_synced() &&
         service_informer_->has_synced() && config_map_informer_->has_synced() &&
         (node_informer_ == nullptr || node_informer_->has_synced());
}

void ClusterView::wake_jobs_on(const std::string& node) const {
  for (const ObservedPod& pod : pods_.list()) {
    const auto slash = pod.job.find('/');
    if (pod.view.node != node) continue;
    on_change_({pod.job.substr(0, slash), pod.job.substr(slash + 1)});
  }
}

plan::NodeState ClusterView::state_of_node(const ObservedPod& pod) const {
  if (node_informer_ == nullptr || pod.view.node.empty()) return plan::NodeState::kUnknown;
  const std::string version = nodes_.version();
  if (const std::optional<ObservedNode> node = nodes_.get({"", pod.view.node})) {
    return node->is_ready ? plan::NodeState::kReady : plan::NodeState::kUnready;
  }
  // Absent may mean: not told of yet. Gone is what was absent after the pod was last written.
  return kube::is_older(pod.version, version) ? plan::NodeState::kGone : plan::NodeState::kUnknown;
}

std::optional<api::TrainingJob> ClusterView::job(const kube::ObjectKey& key) const {
  return jobs_.get(key);
}

bool ClusterView::has_seen(ChildKind kind, const std::string& version) const {
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

plan::Observation ClusterView::observe(const api::TrainingJob& job) const {
  const std::string index = job_index({job.meta.ns, job.meta.name});
  plan::Observation seen;
  for (ObservedPod& pod : pods_.find(index)) {
    pod.view.node_state = state_of_node(pod);
    seen.pods.push_back(std::move(pod.view));
  }
  for (ObservedChild& child : services_.find(index)) seen.services.push_back(std::move(child.view));
  for (ObservedChild& child : config_maps_.find(index)) {
    seen.config_maps.push_back(std::move(child.view));
  }
  const kube::MutexLock lock(taken_mutex_);
  const auto taken = taken_.find({job.meta.ns, job.meta.name});
  if (taken == taken_.end() || taken->second.until < std::chrono::steady_clock::now()) return seen;
  for (const TakenName& name : taken->second.names) {
    if (name.kind == ChildKind::kService) seen.services.push_back(name.object);
    if (name.kind == ChildKind::kConfigMap) seen.config_maps.push_back(name.object);
    if (name.kind != ChildKind::kPod) continue;
    plan::PodView pod;
    pod.name = name.object.name;
    pod.uid = name.object.uid;
    pod.owner_uid = name.object.owner_uid;
    seen.pods.push_back(std::move(pod));
  }
  return seen;
}

void ClusterView::remember_taken(const kube::ObjectKey& key, std::vector<TakenName> taken) {
  const kube::MutexLock lock(taken_mutex_);
  const auto now = std::chrono::steady_clock::now();
  std::erase_if(taken_, [&](const auto& entry) { return entry.second.until < now; });
  if (!taken.empty()) taken_[key] = {std::move(taken), now + kTakenMemory};
}

}  // namespace lockstep::control

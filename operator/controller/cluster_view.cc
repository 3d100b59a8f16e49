#include "operator/controller/cluster_view.h"

#include <algorithm>
#include <utility>

namespace lockstep::control {

ClusterView::ClusterView(kube::Client& client, const Options& options)
    : on_change_(options.on_change) {
  std::vector<std::string> namespaces = options.namespaces;
  if (namespaces.empty()) namespaces.emplace_back();
  for (const std::string& ns : namespaces) {
    const auto trouble = [tell = options.on_trouble, ns](const std::string& message) {
      tell(ns.empty() ? message : ns + ": " + message);
    };
    views_[ns] = std::make_unique<NamespaceView>(
        client, NamespaceView::Options{ns, options.on_change, trouble, options.watch});
  }
  if (options.watches_nodes) watch_nodes(client, options);
}

void ClusterView::watch_nodes(kube::Client& client, const Options& options) {
  kube::Informer<ObservedNode>::Callbacks nodes;
  nodes.project = [](const nlohmann::json& object) { return std::optional(project_node(object)); };
  nodes.on_change = [this](const kube::ObjectKey& key, const ObservedNode* before,
                           const ObservedNode* after) {
    const bool was_ready = before != nullptr && before->is_ready;
    if (was_ready && (after == nullptr || !after->is_ready)) wake_jobs_on(key.name);
  };
  kube::WatchTarget all;
  all.path = {{"", "v1", "nodes"}, "", "", ""};
  all.settings = options.watch;
  all.on_trouble = options.on_trouble;
  node_informer_ = std::make_unique<kube::Informer<ObservedNode>>(client, all, nodes_, nodes);
}

bool ClusterView::has_synced() const {
  return std::any_of(views_.begin(), views_.end(),
                     [](const auto& entry) { return entry.second->has_synced(); }) &&
         (node_informer_ == nullptr || node_informer_->has_synced());
}

bool ClusterView::has_synced(const std::string& ns) const {
  return view_of(ns).has_synced();
}

const NamespaceView& ClusterView::view_of(const std::string& ns) const {
  const auto all = views_.find("");
  return all != views_.end() ? *all->second : *views_.at(ns);
}

std::vector<api::TrainingJob> ClusterView::jobs() const {
  std::vector<api::TrainingJob> jobs;
  for (const auto& [ns, view] : views_) {
    for (api::TrainingJob& job : view->jobs().list()) jobs.push_back(std::move(job));
  }
  return jobs;
}

void ClusterView::wake_jobs_on(const std::string& node) const {
  for (const auto& [ns, view] : views_) {
    for (const ObservedPod& pod : view->pods().list()) {
      const auto slash = pod.job.find('/');
      if (pod.view.node != node) continue;
      on_change_({pod.job.substr(0, slash), pod.job.substr(slash + 1)});
    }
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
  return view_of(key.ns).jobs().get(key);
}

bool ClusterView::has_seen(const std::string& ns, ChildKind kind,
                           const std::string& version) const {
  return view_of(ns).has_seen(kind, version);
}

plan::Observation ClusterView::observe(const api::TrainingJob& job) const {
  const NamespaceView& view = view_of(job.meta.ns);
  const std::string index = job_index({job.meta.ns, job.meta.name});
  plan::Observation seen;
  for (ObservedPod& pod : view.pods().find(index)) {
    pod.view.node_state = state_of_node(pod);
    seen.pods.push_back(std::move(pod.view));
  }
  for (ObservedChild& child : view.services().find(index)) {
    seen.services.push_back(std::move(child.view));
  }
  for (ObservedChild& child : view.config_maps().find(index)) {
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

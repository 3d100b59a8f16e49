#include "tests/cluster/soak/soak_nodes.h"

#include <algorithm>
#include <ctime>
#include <iterator>
#include <utility>
#include <variant>

namespace lockstep::soak {

using nlohmann::json;
using std::chrono::milliseconds;

namespace {

const kube::ResourceType kPods{"", "v1", "pods"};
const kube::ResourceType kNodes{"", "v1", "nodes"};

constexpr int kNumNodes = 4;
constexpr std::chrono::seconds kHeartbeat{10};  // well within the controller manager's 50 s
// After that the collector takes what nobody else does on nodes that are gone.
constexpr std::chrono::seconds kCollectAfter{20};

std::string now_text() {
  const std::time_t now = std::time(nullptr);
  std::tm utc{};
  gmtime_r(&now, &utc);
  char text[32];
  std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &utc);
  return text;
}

// Of a pod whose container is in `state`.
json pod_status(const char* phase, const json& state) {
  json container = {{"name", "trainer"}, {"image", "i"}, {"imageID", "i"}, {"restartCount", 0}};
  container["ready"] = std::string(phase) == "Running";
  container["state"] = state;
  return {{"phase", phase}, {"containerStatuses", json::array({container})}};
}

json running_status() {
  return pod_status("Running", {{"running", {{"startedAt", now_text()}}}});
}

json ended_status(int exit_code) {
  const std::string now = now_text();
  return pod_status(exit_code == 0 ? "Succeeded" : "Failed",
                    {{"terminated",
                      {{"exitCode", exit_code},
                       {"reason", exit_code == 0 ? "Completed" : "Error"},
                       {"startedAt", now},
                       {"finishedAt", now}}}});
}

}  // namespace

SoakNodes::SoakNodes(kube::Client& client, std::string ns, uint64_t seed)
    : client_(client), ns_(std::move(ns)), random_(seed) {}

void SoakNodes::end() {
  thread_.request_stop();
  if (thread_.joinable()) thread_.join();
}

SoakNodes::~SoakNodes() {
  end();
  const kube::MutexLock lock(mutex_);
  for (const std::string& node : nodes_) client_.remove({kNodes, "", node, ""}, {});
}

void SoakNodes::begin(SoakWatch& watch) {
  watch_ = &watch;
  for (int i = 0; i < kNumNodes; ++i) add_node();
  thread_ = std::jthread([this](const std::stop_token& stop) { work(stop); });
}

void SoakNodes::add_node() {
  const std::string name = ns_ + "-" + std::to_string(next_node_++);
  client_.create({kNodes, "", "", ""},
                 {{"apiVersion", "v1"}, {"kind", "Node"}, {"metadata", {{"name", name}}}});
  tell_ready(name);
  const kube::MutexLock lock(mutex_);
  nodes_.insert(name);
}

void SoakNodes::tell_ready(const std::string& node) {
  const json ready = {{"type", "Ready"},
                      {"status", "True"},
                      {"reason", "Soak"},
                      {"lastHeartbeatTime", now_text()},
                      {"lastTransitionTime", now_text()}};
  client_.patch({kNodes, "", node, "status"}, kube::PatchType::kMerge,
                {{"status", {{"conditions", json::array({ready})}}}});
}

void SoakNodes::on_pod(const json& event) {
  const json& object = event["object"];
  const std::string uid = object["metadata"]["uid"];
  const bool is_deleting = object["metadata"].contains("deletionTimestamp");
  const milliseconds pause = is_deleting ? some_time(0, 800) : some_time(20, 300);
  {
    const kube::MutexLock lock(mutex_);
    if (event["type"] == "DELETED") {
      pods_.erase(uid);
      return;
    }
    Pod& pod = pods_[uid];
    if (pod.name.empty()) {
      pod.name = object["metadata"]["name"];
      pod.owner = object["metadata"]["ownerReferences"][0]["uid"];
      pod.due = Clock::now() + pause;
    }
    if (is_deleting && !pod.is_deleting) {
      pod.is_deleting = true;
      const bool is_stranded = !pod.node.empty() && !nodes_.contains(pod.node);
      pod.due = Clock::now() + (is_stranded ? milliseconds(kCollectAfter) : pause);
    }
  }
  changed_.notify_one();
}

milliseconds SoakNodes::some_time(int64_t least_ms, int64_t most_ms) {
  const kube::MutexLock lock(mutex_);
  return milliseconds(std::uniform_int_distribution<int64_t>(least_ms, most_ms)(random_));
}

void SoakNodes::work(const std::stop_token& stop) {
  while (!stop.stop_requested()) {
    std::vector<Deed> deeds;
    std::vector<std::string> due;
    std::set<std::string> nodes;
    {
      kube::MutexLock lock(mutex_);
      const Clock::time_point now = Clock::now();
      Clock::time_point next = now + milliseconds(500);
      for (const auto& [uid, pod] : pods_) next = std::min(next, pod.due);
      if (deeds_.empty() && next > now) changed_.wait_until(mutex_, next);
      deeds.swap(deeds_);
      for (const auto& [uid, pod] : pods_) {
        if (pod.due <= Clock::now()) due.push_back(uid);
      }
      if (now >= next_heartbeat_) nodes = nodes_;
    }
    if (!nodes.empty()) next_heartbeat_ = Clock::now() + kHeartbeat;
    for (const std::string& node : nodes) tell_ready(node);
    for (const Deed& deed : deeds) deed();
    for (const std::string& uid : due) step(uid);
  }
}

void SoakNodes::step(const std::string& uid) {
  Pod pod;
  bool is_stranded = false;
  {
    const kube::MutexLock lock(mutex_);
    const auto found = pods_.find(uid);
    if (found == pods_.end()) return;
    pod = found->second;
    is_stranded = !pod.node.empty() && !nodes_.contains(pod.node);
    found->second.due = Clock::now() + std::chrono::seconds(5);  // again, if nothing is told
  }
  if (pod.is_deleting) return confirm(uid, pod);
  if (is_stranded) return;
  if (pod.stage == Stage::kNew) return bind(uid, pod);
  bool is_told = false;
  if (pod.stage == Stage::kBound) is_told = report(uid, pod, running_status());
  if (pod.stage == Stage::kRunning) is_told = report(uid, pod, ended_status(0));
  if (!is_told) return;
  const milliseconds life = some_time(3000, 12000);
  const kube::MutexLock lock(mutex_);
  const auto found = pods_.find(uid);
  if (found == pods_.end()) return;
  found->second.stage = pod.stage == Stage::kBound ? Stage::kRunning : Stage::kEnded;
  found->second.due = pod.stage == Stage::kBound ? Clock::now() + life : Clock::time_point::max();
}

void SoakNodes::bind(const std::string& uid, const Pod& pod) {
  std::string node;
  {
    const kube::MutexLock lock(mutex_);
    auto at = nodes_.begin();
    std::advance(at, static_cast<int64_t>(random_() % nodes_.size()));
    node = *at;
  }
  const json binding = {{"apiVersion", "v1"},
                        {"kind", "Binding"},
                        {"metadata", {{"name", pod.name}, {"uid", uid}}},
                        {"target", {{"apiVersion", "v1"}, {"kind", "Node"}, {"name", node}}}};
  const auto bound = client_.create({kPods, ns_, pod.name, "binding"}, binding);
  if (!std::holds_alternative<json>(bound)) return;
  const milliseconds pause = some_time(20, 400);
  const kube::MutexLock lock(mutex_);
  const auto found = pods_.find(uid);
  if (found == pods_.end()) return;
  found->second.node = node;
  found->second.stage = Stage::kBound;
  if (!found->second.is_deleting) found->second.due = Clock::now() + pause;
}

bool SoakNodes::report(const std::string& uid, const Pod& pod, const json& status) {
  const auto told = client_.patch({kPods, ns_, pod.name, "status"}, kube::PatchType::kMerge,
                                  {{"metadata", {{"uid", uid}}}, {"status", status}});
  return std::holds_alternative<json>(told);
}

void SoakNodes::confirm(const std::string& uid, const Pod& pod) {
  watch_->note_confirmation(uid);
  client_.remove({kPods, ns_, pod.name, ""}, {.grace_period_seconds = 0, .uid = uid});
}

std::optional<std::string> SoakNodes::pick_running(
    const std::function<void(const std::string& uid)>& deed) {
  std::string owner;
  {
    const kube::MutexLock lock(mutex_);
    std::vector<std::string> running;
    for (const auto& [uid, pod] : pods_) {
      if (pod.stage == Stage::kRunning && !pod.is_deleting) running.push_back(uid);
    }
    if (running.empty()) return std::nullopt;
    const std::string uid = running[random_() % running.size()];
    owner = pods_[uid].owner;
    deeds_.push_back([deed, uid] { deed(uid); });
  }
  changed_.notify_one();
  return owner;
}

std::optional<SoakNodes::Pod> SoakNodes::end_running(const std::string& uid) {
  const kube::MutexLock lock(mutex_);
  const auto found = pods_.find(uid);
  if (found == pods_.end() || found->second.stage != Stage::kRunning) return std::nullopt;
  if (!nodes_.contains(found->second.node)) return std::nullopt;
  found->second.stage = Stage::kEnded;
  if (!found->second.is_deleting) found->second.due = Clock::time_point::max();
  return found->second;
}

std::optional<std::string> SoakNodes::fail_some_pod() {
  return pick_running([this](const std::string& uid) {
    if (const std::optional<Pod> pod = end_running(uid)) report(uid, *pod, ended_status(1));
  });
}

std::optional<std::string> SoakNodes::evict_some_pod() {
  return pick_running([this](const std::string& uid) {
    const std::optional<Pod> pod = end_running(uid);
    if (pod) report(uid, *pod, {{"phase", "Failed"}, {"reason", "Evicted"}, {"message", "soak"}});
  });
}

std::optional<std::string> SoakNodes::delete_some_pod() {
  return pick_running([this](const std::string& uid) {
    std::string name;
    {
      const kube::MutexLock lock(mutex_);
      const auto found = pods_.find(uid);
      if (found != pods_.end()) name = found->second.name;
    }
    if (!name.empty()) client_.remove({kPods, ns_, name, ""}, {.uid = uid});
  });
}

void SoakNodes::lose_some_node() {
  {
    const kube::MutexLock lock(mutex_);
    deeds_.emplace_back([this] {
      add_node();
      std::string lost;
      {
        const kube::MutexLock inner(mutex_);
        lost = *nodes_.begin();
        nodes_.erase(lost);
      }
      watch_->note_lost_node(lost);
      client_.remove({kNodes, "", lost, ""}, {});
    });
  }
  changed_.notify_one();
}

}  // namespace lockstep::soak

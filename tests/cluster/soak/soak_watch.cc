#include "tests/cluster/soak/soak_watch.h"

#include <chrono>
#include <stdexcept>
#include <utility>
#include <variant>

#include "tests/operator/controller/real_server.h"

namespace lockstep::soak {

using nlohmann::json;

namespace {

const kube::ResourceType kPods{"", "v1", "pods"};
const kube::ResourceType kServices{"", "v1", "services"};
const kube::ResourceType kConfigMaps{"", "v1", "configmaps"};

Change change_of(const json& event) {
  if (event["type"] == "ADDED") return Change::kAdded;
  return event["type"] == "DELETED" ? Change::kDeleted : Change::kModified;
}

std::string owner_of(const json& metadata) {
  const auto owners = metadata.find("ownerReferences");
  return owners == metadata.end() ? "" : owners->at(0).value("uid", "");
}

int64_t number(const json& labels, const char* label) {
  return labels.contains(label) ? std::stoll(labels[label].get<std::string>()) : -1;
}

template <typename Record>
Record begun(const json& event) {
  const json& metadata = event["object"]["metadata"];
  Record record;
  record.version = std::stoll(metadata["resourceVersion"].get<std::string>());
  record.change = change_of(event);
  record.name = metadata["name"];
  record.uid = metadata["uid"];
  return record;
}

PodRecord pod_record(const json& event) {
  const json& pod = event["object"];
  auto record = begun<PodRecord>(event);
  record.owner = owner_of(pod["metadata"]);
  const json labels = pod["metadata"].value("labels", json::object());
  record.attempt = number(labels, "lockstep.dev/attempt");
  record.rank = number(labels, "lockstep.dev/rank");
  record.node = pod["spec"].value("nodeName", "");
  record.phase = pod["status"].value("phase", "");
  record.is_evicted = pod["status"].value("reason", "") == "Evicted";
  record.is_deleting = pod["metadata"].contains("deletionTimestamp");
  return record;
}

JobRecord job_record(const json& event) {
  const json& job = event["object"];
  auto record = begun<JobRecord>(event);
  const json status = job.value("status", json::object());
  record.attempt = status.value("attempt", 0);
  record.restarts = status.value("restarts", 0);
  record.max_restarts = job["spec"]["failurePolicy"].value("maxRestarts", 0);
  record.ranks = status.value("ranks", json::object()).value("desired", 0);
  for (const json& condition : status.value("conditions", json::array())) {
    const bool holds = condition["status"] == "True";
    if (condition["type"] == "Scheduled") record.is_scheduled = holds;
    if (condition["type"] == "Suspended") record.is_suspended = holds;
    if (condition["type"] == "Succeeded") record.has_succeeded = holds;
    if (condition["type"] == "Failed") record.has_failed = holds;
  }
  record.status = status.dump();
  return record;
}

}  // namespace

json value_of(const kube::ApiResult<json>& answer) {
  if (const auto* error = std::get_if<kube::ApiError>(&answer)) {
    throw std::runtime_error(error->error.message);
  }
  return std::get<json>(answer);
}

SoakWatch::SoakWatch(kube::Client& client, std::string ns, OnPod on_pod)
    : client_(client), ns_(std::move(ns)), on_pod_(std::move(on_pod)) {
  for (const kube::ResourceType& type : {kPods, kServices, kConfigMaps, control::kTrainingJobs}) {
    const json listed = value_of(client_.list({type, ns_, "", ""}, {}, {}));
    const std::string since = listed["metadata"]["resourceVersion"];
    threads_.emplace_back(
        [this, type, since](const std::stop_token& stop) { follow(type, since, stop); });
  }
}

void SoakWatch::follow(const kube::ResourceType& type, const std::string& since,
                       const std::stop_token& stop) {
  constexpr std::chrono::milliseconds kPause{100};
  std::string version = since;
  while (!stop.stop_requested() && trouble().empty()) {
    client_.stream({type, ns_, "", ""}, "watch=true&timeoutSeconds=300&resourceVersion=" + version,
                   stop, [&](std::string_view line) {
                     const json event = json::parse(line);
                     if (event["type"] == "ERROR") return note_trouble(event.dump());
                     version = event["object"]["metadata"]["resourceVersion"];
                     write_down(type.plural, event);
                     if (type == kPods) on_pod_(event);
                     return true;
                   });
    if (!stop.stop_requested()) std::this_thread::sleep_for(kPause);
  }
}

void SoakWatch::write_down(const std::string& plural, const json& event) {
  if (plural == kPods.plural) {
    const PodRecord record = pod_record(event);
    const kube::MutexLock lock(mutex_);
    history_.pods.push_back(record);
  } else if (plural == control::kTrainingJobs.plural) {
    const JobRecord record = job_record(event);
    const kube::MutexLock lock(mutex_);
    history_.jobs.push_back(record);
    if (record.change == Change::kDeleted) {
      jobs_.erase(record.uid);
    } else {
      jobs_[record.uid] = record;
    }
  } else {
    auto record = begun<ChildRecord>(event);
    record.type = plural;
    record.owner = owner_of(event["object"]["metadata"]);
    if (record.owner.empty()) return;  // the namespace's own
    const kube::MutexLock lock(mutex_);
    history_.children.push_back(record);
  }
}

bool SoakWatch::note_trouble(const std::string& what) {
  const kube::MutexLock lock(mutex_);
  if (trouble_.empty()) trouble_ = what;
  return false;
}

std::string SoakWatch::trouble() const {
  const kube::MutexLock lock(mutex_);
  return trouble_;
}

History SoakWatch::history() const {
  const kube::MutexLock lock(mutex_);
  return history_;
}

std::size_t SoakWatch::num_events() const {
  const kube::MutexLock lock(mutex_);
  return history_.pods.size() + history_.jobs.size() + history_.children.size();
}

std::vector<JobRecord> SoakWatch::jobs() const {
  const kube::MutexLock lock(mutex_);
  std::vector<JobRecord> all;
  for (const auto& [uid, job] : jobs_) all.push_back(job);
  return all;
}

void SoakWatch::note_disturbance(const std::string& job_uid) {
  const kube::MutexLock lock(mutex_);
  ++history_.disturbances[job_uid];
}

void SoakWatch::note_confirmation(const std::string& pod_uid) {
  const kube::MutexLock lock(mutex_);
  history_.confirmed.insert(pod_uid);
}

void SoakWatch::note_lost_node(const std::string& node) {
  const kube::MutexLock lock(mutex_);
  history_.lost_nodes.insert(node);
}

}  // namespace lockstep::soak

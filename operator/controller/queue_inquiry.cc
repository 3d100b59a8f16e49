#include "operator/controller/queue_inquiry.h"

#include <optional>
#include <utility>
#include <variant>

#include "operator/api/json_read.h"
#include "operator/api/kueue_names.h"
#include "operator/plan/queue.h"
#include "operator/plan/status.h"

namespace lockstep::control {

using nlohmann::json;

namespace {

// The versions of Kueue's API that we read, the newest first: 0.15 and later serve both.
constexpr const char* kVersions[] = {"v1beta2", "v1beta1"};

// A plain "404 page not found" comes from a server that does not know the type at all.
bool is_unserved(const kube::ApiError& error) {
  return error.http_status == 404 && error.reason.empty();
}

kube::ApiResult<json> get(kube::Client& client, const std::string& ns, const char* plural,
                          const std::string& name) {
  kube::ApiResult<json> answer = kube::ApiError{};
  for (const char* version : kVersions) {
    answer = client.get({{api::kKueueGroup, version, plural}, ns, name, ""});
    const auto* error = std::get_if<kube::ApiError>(&answer);
    if (error == nullptr || !is_unserved(*error)) break;
  }
  return answer;
}

std::string explain_missing_queue(const kube::ApiError& error, const std::string& ns,
                                  const std::string& queue) {
  if (is_unserved(error)) return "Kueue is not installed in this cluster";
  if (error.error.code == common::ErrorCode::kNotFound) {
    return "there is no LocalQueue \"" + queue + "\" in namespace " + ns;
  }
  return error.error.message;
}

std::string ask_kueue(kube::Client& client, const std::string& ns, const api::QueueStatus& queue) {
  const auto workload = get(client, ns, "workloads", queue.pod_group);
  if (const auto* found = std::get_if<json>(&workload)) return explain_workload(*found);
  const auto local_queue = get(client, ns, "localqueues", queue.name);
  const auto* error = std::get_if<kube::ApiError>(&local_queue);
  return error == nullptr ? "" : explain_missing_queue(*error, ns, queue.name);
}

}  // namespace

std::string explain_workload(const json& workload) {
  const json conditions = api::member(api::member(workload, "status"), "conditions");
  std::string pending, evicted;
  bool has_quota = false, is_admitted = false;
  for (const json& condition : conditions.is_array() ? conditions : json::array()) {
    const std::string type = api::text(condition, "type");
    const bool holds = api::text(condition, "status") == "True";
    const std::string message = api::text(condition, "message");
    if (type == "QuotaReserved" && holds) has_quota = true;
    if (type == "QuotaReserved" && !holds) pending = message;
    if (type == "Admitted" && holds) is_admitted = true;
    if (type == "Evicted" && holds) evicted = message;
  }
  if (is_admitted) return "";
  if (has_quota) return "its quota is reserved, and admission checks are pending";
  if (pending.empty() || evicted.find(pending) != std::string::npos) return evicted;
  return evicted.empty() ? pending : evicted + "; " + pending;
}

std::string QueueInquiry::ask(const api::TrainingJob& job, api::Time now) {
  const std::optional<api::QueueStatus>& queue = job.status.queue;
  const kube::ObjectKey key{job.meta.ns, job.meta.name};
  if (!queue || !plan::has_reason(job.status, plan::kScheduled, plan::kQueuedReason)) {
    forget(key);
    return "";
  }
  {
    const kube::MutexLock lock(mutex_);
    const auto known = answers_.find(key);
    const bool holds = known != answers_.end() && known->second.pod_group == queue->pod_group &&
                       now - known->second.at < kAnswerHolds;
    if (holds) return known->second.word;
  }
  std::string word = ask_kueue(client_, job.meta.ns, *queue);
  const kube::MutexLock lock(mutex_);
  answers_[key] = {.pod_group = queue->pod_group, .at = now, .word = word};
  return word;
}

void QueueInquiry::forget(const kube::ObjectKey& key) {
  const kube::MutexLock lock(mutex_);
  answers_.erase(key);
}

}  // namespace lockstep::control

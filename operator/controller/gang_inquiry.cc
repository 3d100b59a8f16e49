#include "operator/controller/gang_inquiry.h"

#include <optional>
#include <utility>
#include <variant>

#include "operator/api/json_read.h"
#include "operator/controller/pod_group_actions.h"
#include "operator/plan/pod_group.h"
#include "operator/plan/status.h"

namespace lockstep::control {

using nlohmann::json;

namespace {

// Volcano: Unschedulable holds while the group waits. Kubernetes' own: PodGroupScheduled does not.
bool tells_of_wait(const json& condition) {
  const std::string type = api::text(condition, "type");
  const std::string status = api::text(condition, "status");
  return (type == "Unschedulable" && status == "True") ||
         (type == "PodGroupScheduled" && status == "False");
}

GangWord ask_group(kube::Client& client, const std::string& ns, const api::GangStatus& gang) {
  const std::string api_version =
      plan::pod_group_version(api::parse_gang_scheduler(gang.scheduler));
  const auto answer = client.get({pod_group_type(api_version), ns, gang.pod_group, ""});
  if (const auto* found = std::get_if<json>(&answer)) return {explain_pod_group(*found), false};
  const common::Error& error = std::get<kube::ApiError>(answer).error;
  if (error.code == common::ErrorCode::kNotFound) return {"it is not there", true};
  return {error.message, false};
}

}  // namespace

std::string explain_pod_group(const json& pod_group) {
  const json status = api::member(pod_group, "status");
  const json conditions = api::member(status, "conditions");
  std::string text;
  for (const json& condition : conditions.is_array() ? conditions : json::array()) {
    if (!tells_of_wait(condition)) continue;
    const std::string message = api::text(condition, "message");
    text = message.empty() ? api::text(condition, "reason") : message;
  }
  const std::string phase = api::text(status, "phase");
  if (phase.empty()) return text;
  return text.empty() ? phase : phase + ": " + text;
}

GangWord GangInquiry::ask(const api::TrainingJob& job, api::Time now) {
  const std::optional<api::GangStatus>& gang = job.status.gang;
  const kube::ObjectKey key{job.meta.ns, job.meta.name};
  if (!gang || !plan::has_reason(job.status, plan::kScheduled, plan::kGangWaits)) {
    forget(key);
    return {};
  }
  {
    const kube::MutexLock lock(mutex_);
    const auto known = answers_.find(key);
    const bool holds = known != answers_.end() && known->second.pod_group == gang->pod_group &&
                       now - known->second.at < kAnswerHolds;
    if (holds) return known->second.word;
  }
  GangWord word = ask_group(client_, job.meta.ns, *gang);
  const kube::MutexLock lock(mutex_);
  answers_[key] = {.pod_group = gang->pod_group, .at = now, .word = word};
  return word;
}

void GangInquiry::forget(const kube::ObjectKey& key) {
  const kube::MutexLock lock(mutex_);
  answers_.erase(key);
}

}  // namespace lockstep::control

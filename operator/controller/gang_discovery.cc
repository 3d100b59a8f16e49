#include "operator/controller/gang_discovery.h"

#include <algorithm>
#include <iterator>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "operator/api/gang_names.h"
#include "operator/api/json_read.h"
#include "operator/plan/status.h"

namespace lockstep::control {

using nlohmann::json;

namespace {

// The document at /apis/GROUP or /apis/GROUP/VERSION: null if there is none.
struct Discovered {
  json document;
  std::string refusal;      // the server does not tell us
  bool has_failed = false;  // nobody knows
};

Discovered discover(kube::Client& client, const char* group, const char* version) {
  const auto answer = client.get({{group, version, ""}, "", "", ""});
  if (const auto* document = std::get_if<json>(&answer)) return {*document, "", false};
  const kube::ApiError& error = std::get<kube::ApiError>(answer);
  if (error.error.code == common::ErrorCode::kNotFound) return {};
  const bool is_refused = error.error.code == common::ErrorCode::kPermissionDenied;
  return {json(), error.error.message, !is_refused};
}

bool lists_pod_groups(const json& resources) {
  const json list = api::member(resources, "resources");
  return std::any_of(list.begin(), list.end(), [](const json& resource) {
    return api::text(resource, "name") == api::kPodGroupPlural;
  });
}

void note_refusal(const Discovered& found, plan::GangApis& apis) {
  if (!found.refusal.empty() && apis.trouble.empty()) apis.trouble = found.refusal;
}

// The versions of Kubernetes' own group beyond that of PriorityClass.
std::vector<std::string> workload_versions(const json& group) {
  constexpr const char* kOfPriorityClass = "v1";
  std::vector<std::string> versions;
  const json list = api::member(group, "versions");
  for (const json& version : list.is_array() ? list : json::array()) {
    const std::string name = api::text(version, "version");
    if (!name.empty() && name != kOfPriorityClass) versions.push_back(name);
  }
  return versions;
}

// Nothing if the API server did not answer.
std::optional<plan::GangApis> discover_all(kube::Client& client) {
  plan::GangApis apis;
  const std::pair<const char*, const char*> foreign[] = {
      {api::kCoschedulingGroup, api::kCoschedulingVersion},
      {api::kVolcanoGroup, api::kVolcanoVersion}};
  bool* const is_served[] = {&apis.coscheduling, &apis.volcano};
  for (std::size_t i = 0; i < std::size(foreign); ++i) {
    const Discovered found = discover(client, foreign[i].first, foreign[i].second);
    if (found.has_failed) return std::nullopt;
    note_refusal(found, apis);
    *is_served[i] = lists_pod_groups(found.document);
  }
  const Discovered group = discover(client, api::kNativeGroup, "");
  if (group.has_failed) return std::nullopt;
  note_refusal(group, apis);
  for (const std::string& version : workload_versions(group.document)) {
    if (version != api::kNativeVersion) {
      apis.ignored.push_back(std::string(api::kNativeGroup) + "/" + version);
      continue;
    }
    const Discovered found = discover(client, api::kNativeGroup, api::kNativeVersion);
    if (found.has_failed) return std::nullopt;
    note_refusal(found, apis);
    apis.native = lists_pod_groups(found.document);
  }
  return apis;
}

// The job's next attempt may be about to get its pods.
bool may_get_pods(const api::TrainingJob& job) {
  return job.spec.scheduling.gang_scheduler != api::GangScheduler::kNone && !job.spec.suspend &&
         !job.meta.deletion_time && !plan::is_finished(job.status) &&
         !plan::is_true(job.status, plan::kScheduled);
}

std::string list_served(const plan::GangApis& apis) {
  std::string text;
  const auto add = [&text](bool is_served, const char* name) {
    if (is_served) text += (text.empty() ? "" : " ") + std::string(name);
  };
  add(apis.coscheduling, "coscheduling");
  add(apis.volcano, "volcano");
  add(apis.native, "native");
  return text.empty() ? "none" : text;
}

std::string join_words(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : " ") + word;
  return text;
}

}  // namespace

plan::GangApis GangDiscovery::ask(const api::TrainingJob& job, api::Time now) {
  const plan::GangApis nothing = {.is_known = false};
  if (!may_get_pods(job)) return nothing;
  {
    const kube::MutexLock lock(mutex_);
    if (now < ask_again_) return known_.value_or(nothing);
    if (known_) ask_again_ = now + kRetry;  // others go by the older answer meanwhile
  }
  const std::optional<plan::GangApis> found = discover_all(client_);
  const auto [apis, is_news] = learn(found, now);
  if (is_news) {
    log_.info("gang_schedulers", {{"served", list_served(apis)},
                                  {"ignored", join_words(apis.ignored)},
                                  {"trouble", apis.trouble}});
  }
  return apis;
}

std::pair<plan::GangApis, bool> GangDiscovery::learn(const std::optional<plan::GangApis>& found,
                                                     api::Time now) {
  const kube::MutexLock lock(mutex_);
  ask_again_ = now + (found ? kAnswerHolds : kRetry);
  const bool is_news = found && found != known_;
  if (is_news) known_ = found;
  return {known_.value_or(plan::GangApis{.is_known = false}), is_news};
}

}  // namespace lockstep::control

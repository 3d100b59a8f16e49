#include "operator/plan/pod_group.h"

#include <algorithm>
#include <map>
#include <string>
#include <utility>
#include <variant>

#include "operator/api/gang_check.h"
#include "operator/api/gang_names.h"
#include "operator/plan/attempt.h"
#include "operator/plan/children.h"
#include "operator/plan/gang.h"
#include "operator/plan/names.h"
#include "operator/plan/render.h"
#include "operator/plan/resources.h"
#include "operator/plan/status.h"

namespace lockstep::plan {
namespace {

using api::GangScheduler;
using api::GangStatus;
using nlohmann::json;
using std::chrono::seconds;

// How soon to look again for a scheduler that is missing, and at a gang that waits for its own.
constexpr seconds kGangPoll{30};

bool is_served(GangScheduler scheduler, const GangApis& apis) {
  switch (scheduler) {
    case GangScheduler::kCoscheduling:
      return apis.coscheduling;
    case GangScheduler::kVolcano:
      return apis.volcano;
    case GangScheduler::kNative:
      return apis.native;
    case GangScheduler::kAuto:
    case GangScheduler::kNone:
      break;
  }
  return false;
}

std::string say_missing(GangScheduler scheduler, const GangApis& apis) {
  std::string text = std::string("spec.scheduling.gangScheduler is ") + api::to_string(scheduler) +
                     ", but the API server serves no PodGroup of " + pod_group_version(scheduler);
  if (scheduler == GangScheduler::kNative) {
    for (const std::string& version : apis.ignored) text += "; " + version + " is ignored";
  }
  if (!apis.trouble.empty()) text += "; it says: " + apis.trouble;
  return text;
}

// Whose pods the template's schedulerName makes them.
GangScheduler scheduler_of(const json& pod_template) {
  const std::string name = api::scheduler_name(pod_template);
  if (name.empty() || name == api::kDefaultScheduler) return GangScheduler::kNative;
  return name == api::kVolcanoScheduler ? GangScheduler::kVolcano : GangScheduler::kCoscheduling;
}

GangChoice choose_gang(const Situation& s) {
  return choose_gang(s.job, template_of_attempt(s), s.seen.gang_apis);
}

bool has_any_pod(const Gang& gang) {
  return std::any_of(gang.pods.begin(), gang.pods.end(),
                     [](const PodView* pod) { return pod != nullptr; });
}

bool makes_pods(const Plan& next) {
  return std::any_of(next.actions.begin(), next.actions.end(), [](const Action& action) {
    return std::holds_alternative<CreatePod>(action);
  });
}

bool is_pausing(const Situation& s) {
  const std::optional<api::Time>& until = s.job.status.restart_not_before;
  return until && s.now < *until;
}

// The group that the attempt is to have; the recorded one if that will do.
std::optional<GangStatus> wanted_gang(const Situation& s, const GangChoice& choice) {
  if (choice.kind != GangChoice::Kind::kGroup) return std::nullopt;
  const std::optional<GangStatus>& old = s.job.status.gang;
  GangStatus wanted = {.scheduler = api::to_string(choice.scheduler),
                       .pod_group = pod_group_name(s.job, s.job.status.attempt),
                       .pods = s.gang.num_pods()};
  const bool may_change = choice.scheduler != GangScheduler::kNative;
  const bool stays = old && old->scheduler == wanted.scheduler && !old->pod_group.empty() &&
                     (may_change || old->pods == wanted.pods);
  if (stays) wanted.pod_group = old->pod_group;
  return wanted;
}

DeletePodGroup end_of(const GangStatus& gang) {
  return {.name = gang.pod_group,
          .api_version = pod_group_version(api::parse_gang_scheduler(gang.scheduler))};
}

std::string describe_gang_wait(const Situation& s, const GangStatus& gang) {
  std::string text = "waits for " + gang.scheduler + " to give nodes to all " +
                     std::to_string(gang.pods) + " pods of PodGroup " + gang.pod_group + " at once";
  if (!s.seen.gang_word.empty()) text += ": " + s.seen.gang_word;
  return text;
}

}  // namespace

GangChoice choose_gang(const api::TrainingJob& job, const json& pod_template,
                       const GangApis& apis) {
  const GangScheduler asked = job.spec.scheduling.gang_scheduler;
  const bool is_auto = asked == GangScheduler::kAuto;
  if (asked == GangScheduler::kNone) return {};
  if (is_auto && api::has_own_pod_group(pod_template)) return {};
  if (!apis.is_known) return {.kind = GangChoice::Kind::kUnknown, .missing = {}};
  const GangScheduler scheduler = is_auto ? scheduler_of(pod_template) : asked;
  if (is_served(scheduler, apis)) {
    return {.kind = GangChoice::Kind::kGroup, .scheduler = scheduler, .missing = {}};
  }
  if (is_auto) return {};
  return {.kind = GangChoice::Kind::kMissing, .missing = say_missing(asked, apis)};
}

GangApis all_gang_apis() {
  return {.coscheduling = true, .volcano = true, .native = true};
}

std::string pod_group_version(GangScheduler scheduler) {
  const auto joined = [](const char* group, const char* version) {
    return std::string(group) + "/" + version;
  };
  switch (scheduler) {
    case GangScheduler::kCoscheduling:
      return joined(api::kCoschedulingGroup, api::kCoschedulingVersion);
    case GangScheduler::kVolcano:
      return joined(api::kVolcanoGroup, api::kVolcanoVersion);
    case GangScheduler::kNative:
      return joined(api::kNativeGroup, api::kNativeVersion);
    case GangScheduler::kAuto:
    case GangScheduler::kNone:
      break;
  }
  return "";
}

void join_gang(const Situation& s, api::TrainingJobStatus& next) {
  if (next.gang || !begins_attempt(s.job.status, next)) return;
  const GangChoice choice = choose_gang(s.job, s.job.spec.pod_template, s.seen.gang_apis);
  if (choice.kind != GangChoice::Kind::kGroup) return;
  next.gang = GangStatus{.scheduler = api::to_string(choice.scheduler),
                         .pod_group = pod_group_name(s.job, next.attempt),
                         .pods = next.ranks.desired / std::max<int64_t>(1, next.ranks.per_pod)};
}

bool needs_other_gang(const Situation& s) {
  if (has_any_pod(s.gang) || is_pausing(s) || !s.gang.taken_name.empty()) return false;
  const GangChoice choice = choose_gang(s);
  const bool is_open =
      choice.kind == GangChoice::Kind::kMissing || choice.kind == GangChoice::Kind::kUnknown;
  return !is_open && wanted_gang(s, choice) != s.job.status.gang;
}

Plan change_gang(const Situation& s, Plan next) {
  const std::optional<GangStatus>& old = s.job.status.gang;
  const std::optional<GangStatus> wanted = wanted_gang(s, choose_gang(s));
  const bool stays =
      old && wanted && old->scheduler == wanted->scheduler && old->pod_group == wanted->pod_group;
  if (old && !stays) next.actions.emplace_back(end_of(*old));
  next.status.gang = wanted;
  next.requeue_after = kNextRound;
  return next;
}

std::optional<seconds> gang_scheduler_wait(const Situation& s) {
  if (has_any_pod(s.gang)) return std::nullopt;
  switch (choose_gang(s).kind) {
    case GangChoice::Kind::kMissing:
      return kGangPoll;
    case GangChoice::Kind::kUnknown:
      return kNextRound;
    case GangChoice::Kind::kNone:
    case GangChoice::Kind::kGroup:
      break;
  }
  return std::nullopt;
}

void tell_gang(const Situation& s, Plan& next) {
  api::TrainingJobStatus& status = next.status;
  if (is_true(status, kScheduled) || !has_reason(status, kScheduled, kWaitingForNodes)) return;
  const bool has_pods = has_any_pod(s.gang) || makes_pods(next);
  if (has_pods && status.gang) {
    const std::string text = describe_gang_wait(s, *status.gang);
    status.message += "; " + text;
    set_condition(status, {.type = kScheduled, .reason = kGangWaits, .message = text}, s.now);
    requeue_within(next, kGangPoll);
    return;
  }
  const GangChoice choice = choose_gang(s);
  if (has_pods || is_pausing(s) || choice.kind != GangChoice::Kind::kMissing) return;
  status.message = choice.missing;
  set_condition(status,
                {.type = kScheduled, .reason = kGangSchedulerMissing, .message = choice.missing},
                s.now);
  if (has_reason(s.job.status, kScheduled, kGangSchedulerMissing)) return;
  next.events.push_back(
      {.warning = true, .reason = kGangSchedulerMissing, .message = choice.missing});
}

void end_gang(const Situation& s, Plan& next) {
  const bool ends = is_finished(next.status) || is_true(next.status, kSuspended);
  if (!ends || !next.status.gang || begins_attempt(s.job.status, next.status)) return;
  next.actions.emplace_back(end_of(*next.status.gang));
  next.status.gang.reset();
}

json render_pod_group(const api::TrainingJob& job, const GangStatus& gang, const json& pod) {
  const GangScheduler scheduler = api::parse_gang_scheduler(gang.scheduler);
  json spec = {{"minMember", gang.pods}};
  if (scheduler == GangScheduler::kNative) {
    spec = {{"schedulingPolicy", {{"gang", {{"minCount", gang.pods}}}}}};
  } else if (json requests = pod_requests(pod["spec"], gang.pods); !requests.empty()) {
    spec["minResources"] = std::move(requests);
  }
  if (scheduler == GangScheduler::kVolcano) {
    const auto queue = job.meta.labels.find(api::kVolcanoQueueLabel);
    if (queue != job.meta.labels.end()) spec["queue"] = queue->second;
    const std::string priority = pod["spec"].value("priorityClassName", "");
    if (!priority.empty()) spec["priorityClassName"] = priority;
  }
  return {{"apiVersion", pod_group_version(scheduler)},
          {"kind", api::kPodGroupKind},
          {"metadata", child_metadata(job, gang.pod_group)},
          {"spec", spec}};
}

void put_in_gang(const GangStatus& gang, json& pod) {
  switch (api::parse_gang_scheduler(gang.scheduler)) {
    case GangScheduler::kCoscheduling:
      pod["metadata"]["labels"][api::kCoschedulingLabel] = gang.pod_group;
      break;
    case GangScheduler::kVolcano:
      pod["metadata"]["annotations"][api::kVolcanoAnnotation] = gang.pod_group;
      if (!pod["spec"].contains("schedulerName")) {
        pod["spec"]["schedulerName"] = api::kVolcanoScheduler;
      }
      break;
    case GangScheduler::kNative:
      pod["spec"][api::kNativeField] = {{"podGroupName", gang.pod_group}};
      break;
    case GangScheduler::kAuto:
    case GangScheduler::kNone:
      break;
  }
}

}  // namespace lockstep::plan

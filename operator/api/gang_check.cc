#include "operator/api/gang_check.h"

#include <array>
#include <optional>

#include "operator/api/gang_names.h"
#include "operator/api/json_read.h"
#include "operator/api/training_job.h"
#include "runtime/common/document.h"

namespace lockstep::api {
namespace {

using nlohmann::json;

constexpr const char* kTemplate = "spec.template";

struct Marker {
  std::array<const char*, 2> parents;
  const char* key;
};
// How a pod names its group.
constexpr Marker kMarkers[] = {
    {{"metadata", "labels"}, kCoschedulingLabel},
    {{"metadata", "annotations"}, kVolcanoAnnotation},
    {{"metadata", "annotations"}, kVolcanoOwnAnnotation},
    {{"spec", nullptr}, kNativeField},
};

// The path of a marker in the template; nothing if it is not there.
std::optional<std::string> path_of(const Marker& marker, const json& pod_template) {
  json at = pod_template;
  std::string path = kTemplate;
  for (const char* parent : marker.parents) {
    if (parent == nullptr) continue;
    at = member(at, parent);
    path = common::child_path(path, parent);
  }
  if (!at.is_object() || !at.contains(marker.key)) return std::nullopt;
  return common::child_path(path, marker.key);
}

}  // namespace

bool has_own_pod_group(const json& pod_template) {
  for (const Marker& marker : kMarkers) {
    if (path_of(marker, pod_template)) return true;
  }
  return false;
}

std::string scheduler_name(const json& pod_template) {
  return text(member(pod_template, "spec"), "schedulerName");
}

common::Problems check_gang(const json& spec) {
  const std::string word = text(member(spec, "scheduling"), "gangScheduler");
  const GangScheduler scheduler = parse_gang_scheduler(word);
  if (scheduler == GangScheduler::kAuto || scheduler == GangScheduler::kNone) return {};
  const json pod_template = member(spec, "template");
  common::Problems problems;
  for (const Marker& marker : kMarkers) {
    const std::optional<std::string> path = path_of(marker, pod_template);
    if (!path) continue;
    problems.push_back({.path = *path,
                        .message = "is set by the operator itself",
                        .hint = "for a group of your own: spec.scheduling.gangScheduler: none"});
  }
  const bool is_volcano = scheduler == GangScheduler::kVolcano;
  if (is_volcano && scheduler_name(pod_template) == kDefaultScheduler) {
    problems.push_back({.path = "spec.template.spec.schedulerName",
                        .message = "is not Volcano's, which gangScheduler asks for",
                        .hint = "leave it out"});
  }
  return problems;
}

}  // namespace lockstep::api

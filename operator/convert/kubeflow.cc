#include "operator/convert/kubeflow.h"

#include <utility>

#include "operator/api/kueue_names.h"
#include "operator/convert/hub.h"
#include "operator/convert/machines.h"
#include "operator/convert/pod_parts.h"

namespace lockstep::convert {
namespace {

using common::Document;
using nlohmann::json;

constexpr const char* kReplicas = "spec.pytorchReplicaSpecs.";
constexpr const char* kMainContainer = "pytorch";
constexpr const char* kFound = "ranks find rank 0 themselves";

// The replicas whose template counts: rank 0's.
std::string primary_role(const Draft& draft) {
  return draft.key(std::string(kReplicas) + "Master") != nullptr ? "Master" : "Worker";
}

std::optional<int64_t> replicas_of(const Draft& draft, const std::string& role) {
  const std::string path = kReplicas + role;
  if (draft.key(path) == nullptr) return 0;
  const json* replicas = draft.key(path + ".replicas");
  return replicas == nullptr ? 1 : whole(*replicas);
}

// nprocPerNode in either of its places; nothing for words, and 1 if it is not given.
std::optional<int64_t> processes_of(const Draft& draft) {
  for (const char* const path : {"spec.nprocPerNode", "spec.elasticPolicy.nProcPerNode"}) {
    if (const json* value = draft.key(path)) return count_in(*value);
  }
  return 1;
}

std::optional<Verdict> take_replicas(const json& value, Draft& draft) {
  const std::optional<int64_t> count = whole(value);
  if (!count || *count < 0) return broken("must be a number of pods, found " + value.dump());
  const std::optional<int64_t> pods_of_master = replicas_of(draft, "Master");
  const std::optional<int64_t> pods_of_worker = replicas_of(draft, "Worker");
  if (!pods_of_master || !pods_of_worker) return mapped("counted with the others");
  const int64_t pods = *pods_of_master + *pods_of_worker;
  return draft.map("ranks", pods * processes_of(draft).value_or(1), "all pods and their processes");
}

std::optional<Verdict> take_restart_policy(const json& value, Draft& draft) {
  if (value == "Never" && draft.key("spec.runPolicy.backoffLimit") == nullptr) {
    return draft.map("failurePolicy.maxRestarts", 0);
  }
  if (value == "ExitCode")
    return changed("the whole gang restarts: failurePolicy.rules by exit code");
  if (value == "Never" || value == "OnFailure" || value == "Always") {
    return changed("the whole gang restarts: failurePolicy.maxRestarts");
  }
  return broken("must be Never, OnFailure, Always or ExitCode, found " + value.dump());
}

// A key of one role's replicas. Rank 0's counts; the other must say the same.
Take of_role(const std::string& role, const std::string& below, Take take) {
  return [role, below, take = std::move(take)](const json& value,
                                               Draft& draft) -> std::optional<Verdict> {
    const std::string other = role == "Master" ? "Worker" : "Master";
    const json* twin = draft.key(kReplicas + other + "." + below);
    if (primary_role(draft) != role) {
      if (twin != nullptr && *twin == value) return mapped("as of the " + other);
      return refused("one template serves for all ranks, and the " + other + "'s is another");
    }
    std::optional<Verdict> verdict = take(value, draft);
    const bool alone = draft.key(kReplicas + other) != nullptr && twin == nullptr;
    if (verdict && verdict->fate == Fate::kMapped && !verdict->broken && alone) {
      verdict->fate = Fate::kChanged;
      verdict->text = "for all ranks: the " + other + " has none";
    }
    return verdict;
  };
}

Table role_rows(const std::string& role) {
  const std::string root = kReplicas + role + ".";
  Table table = {{root + "replicas", take_replicas}, {root + "restartPolicy", take_restart_policy}};
  for (const Table& rows :
       {pod_rows("template."),
        container_rows(std::string("template.spec.containers.") + kMainContainer + ".")}) {
    for (const Row& row : rows) table.push_back({root + row.key, of_role(role, row.key, row.take)});
  }
  return table;
}

Table run_policy_rows() {
  const std::string root = "spec.runPolicy.";
  const std::string elastic = "spec.elasticPolicy.";
  constexpr const char* kQueues =
      "a queue of Volcano is the job's label scheduling.volcano.sh/queue-name, with "
      "spec.scheduling.gangScheduler: volcano";
  constexpr const char* kScheduleTimeout =
      "the scheduler's own default holds; spec.scheduling.gangTimeoutSeconds is for half a gang";
  constexpr const char* kScale =
      "kubectl scale changes ranks at any time; nothing does it by itself";
  Table table = {
      {root + "cleanPodPolicy", same("cleanPodPolicy")},
      {root + "ttlSecondsAfterFinished", same("ttlSecondsAfterFinished")},
      {root + "activeDeadlineSeconds", same("activeDeadlineSeconds")},
      {root + "backoffLimit", same("failurePolicy.maxRestarts", "refilled by checkpoints")},
      {root + "suspend", take_suspend},
      {root + "managedBy",
       refuse_unless_off("another controller of PyTorchJobs cannot run this job")},
      {root + "schedulingPolicy.priorityClass", into_template("spec.priorityClassName")},
      {root + "schedulingPolicy.minAvailable", without_effect("a gang is all of its ranks")},
      {root + "schedulingPolicy.minResources",
       without_effect("the operator sums up what the pods of a gang ask for")},
      {root + "schedulingPolicy.queue", refuse_unless_off(kQueues)},
      {root + "schedulingPolicy.scheduleTimeoutSeconds", refuse_unless_off(kScheduleTimeout)},
      {"spec.nprocPerNode", take_processes_per_pod},
      {elastic + "nProcPerNode", take_processes_per_pod},
      {elastic + "minReplicas", without_effect(kScale)},
      {elastic + "maxReplicas", without_effect(kScale)},
      {elastic + "metrics", refuse_unless_off("ranks are not scaled by metrics in this version")},
      {elastic + "maxRestarts", same("failurePolicy.maxRestarts", "refilled by checkpoints")},
      {elastic + "standalone", without_effect(kFound)},
  };
  for (const char* const key : {"rdzvBackend", "rdzvHost", "rdzvPort", "rdzvId", "rdzvConf"}) {
    table.push_back({elastic + key, without_effect(kFound)});
  }
  return table;
}

// Why `value` cannot be labels or annotations; empty if it can.
std::string unlike_texts(const json& value) {
  if (!value.is_object()) return "must be a map, found " + value.dump();
  for (const auto& [key, text] : value.items()) {
    if (!text.is_string()) return key + " must be a text, found " + text.dump();
  }
  return "";
}

std::optional<Verdict> take_namespace(const json& value, Draft& draft) {
  if (!value.is_string()) return broken("must be a name, found " + value.dump());
  draft.metadata["namespace"] = value;
  return mapped("metadata.namespace");
}

std::optional<Verdict> take_labels(const json& value, Draft& draft) {
  if (const std::string why = unlike_texts(value); !why.empty()) return broken(why);
  draft.metadata["labels"] = value;
  for (const auto& [key, ignored] : value.items()) {
    const bool has_effect = key == api::kQueueLabel || key == api::kPriorityClassLabel;
    if (key.starts_with("kueue.x-k8s.io/") && !has_effect) {
      return refused(key + " has no effect here");
    }
  }
  return mapped("metadata.labels");
}

std::optional<Verdict> take_annotations(const json& value, Draft& draft) {
  if (const std::string why = unlike_texts(value); !why.empty()) return broken(why);
  draft.metadata["annotations"] = value;
  return mapped("metadata.annotations");
}

// Renames the paths at and below `from`.
void move_lines(const std::string& from, const std::string& to, Document& document) {
  std::map<std::string, int> moved;
  for (const auto& [path, line] : document.lines) {
    if (common::is_within(path, from)) moved[to + path.substr(from.size())] = line;
  }
  document.lines.merge(moved);
}

// Which of `containers` is the main one: the only one, or that of its name. What is wrong with them
// goes to `problems`.
size_t find_main(const json& containers, common::Problem where, common::Problems& problems) {
  if (!containers.is_array() || containers.empty()) {
    where.message = "must be a list of containers, found " + containers.dump();
    problems.push_back(std::move(where));
    return 0;
  }
  for (size_t i = 0; i < containers.size(); ++i) {
    if (text_at(containers.at(i), "name") == kMainContainer) return i;
  }
  if (containers.size() > 1) {
    where.message = std::string("none of several is called ").append(kMainContainer);
    where.hint = "give that name to the one that trains";
    problems.push_back(std::move(where));
  }
  return 0;
}

// The document with the main container by its name, so that its keys have rows.
Document with_named_container(Document document, common::Problems& problems) {
  for (const char* const role : {"Master", "Worker"}) {
    const std::string spec = std::string(kReplicas) + role + ".template.spec";
    const json* found = find_path(document.value, spec + ".containers");
    if (found == nullptr) continue;
    const std::string path = spec + ".containers";
    const size_t main = find_main(*found, {.path = path, .line = document.line_of(path)}, problems);
    if (common::has_errors(problems)) return document;
    std::string pointer = "/" + spec;
    for (char& c : pointer) c = c == '.' ? '/' : c;
    json& pod = document.value[json::json_pointer(pointer)];
    json containers = pod["containers"];
    move_lines(spec + ".containers[" + std::to_string(main) + "]",
               spec + ".containers." + kMainContainer, document);
    move_lines(spec + ".containers", spec + ".sidecars", document);
    pod["containers"] = {{kMainContainer, containers.at(main)}};
    containers.erase(main);
    if (!containers.empty()) pod["sidecars"] = containers;
  }
  return document;
}

}  // namespace

std::optional<Verdict> take_suspend(const json& value, Draft& draft) {
  const json* labels = draft.key("metadata.labels");
  const bool is_queued = labels != nullptr && !text_at(*labels, api::kQueueLabel).empty();
  if (is_queued && value == true) return changed("Kueue holds the pods of a queued job");
  return draft.map("suspend", value);
}

Table object_rows() {
  Table table = {
      {"apiVersion", without_effect("lockstep.dev/v1alpha1")},
      {"kind", without_effect("TrainingJob")},
      {"status", without_effect("of a job that ran elsewhere")},
      {"metadata.name",
       [](const json& value, Draft& draft) { return std::optional(take_job_name(value, draft)); }},
      {"metadata.namespace", take_namespace},
      {"metadata.labels", take_labels},
      {"metadata.annotations", take_annotations},
  };
  for (const char* const key :
       {"creationTimestamp", "generateName", "generation", "uid", "resourceVersion",
        "managedFields", "ownerReferences", "finalizers", "selfLink"}) {
    table.push_back({std::string("metadata.").append(key), without_effect("of the old object")});
  }
  return table;
}

const Table& pytorchjob_table() {
  static const Table table =
      joined({object_rows(), run_policy_rows(), role_rows("Master"), role_rows("Worker")});
  return table;
}

Conversion convert_pytorchjob(const Document& document) {
  Draft draft;
  Conversion conversion{.tool = "PyTorchJob"};
  const Document named = with_named_container(document, conversion.problems);
  if (common::has_errors(conversion.problems)) return conversion;
  draft.source = named.value;
  if (draft.key("spec.pytorchReplicaSpecs") == nullptr) {
    conversion.problems.push_back({.path = "spec.pytorchReplicaSpecs", .message = "is required"});
    return conversion;
  }
  // Known before the container's resources, which are of a pod.
  const int64_t processes = processes_of(draft).value_or(1);
  if (processes > 1) draft.spec["ranksPerPod"] = processes;
  take_all(pytorchjob_table(), named, draft, conversion.notes, conversion.problems);
  const int64_t pods =
      replicas_of(draft, "Master").value_or(1) + replicas_of(draft, "Worker").value_or(0);
  draft.assume("ranks", pods * processes, "a pod of each, the default");
  fill_in_program(draft, "what the image runs by itself");
  move_into(conversion, std::move(draft));
  return conversion;
}

}  // namespace lockstep::convert

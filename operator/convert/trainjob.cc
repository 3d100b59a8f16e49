// Kubeflow's TrainJob.
#include <utility>

#include "operator/convert/kubeflow.h"
#include "operator/convert/machines.h"
#include "operator/convert/pod_parts.h"

namespace lockstep::convert {
namespace {

using nlohmann::json;

constexpr const char* kTrainer = "spec.trainer.";
constexpr const char* kOverrides = "write it as spec.template, a PodTemplateSpec for all ranks";

int64_t count_of(const Draft& draft, const char* key, int64_t otherwise) {
  const json* found = draft.key(std::string(kTrainer) + key);
  return found == nullptr ? otherwise : count_in(*found).value_or(otherwise);
}

std::optional<Verdict> take_nodes(const json& value, Draft& draft) {
  const std::optional<int64_t> nodes = whole(value);
  if (!nodes || *nodes < 1) return broken("must be a number of nodes, found " + value.dump());
  return draft.map("ranks", *nodes * count_of(draft, "numProcPerNode", 1),
                   "all nodes and their processes");
}

std::optional<Verdict> take_runtime(const json& value, Draft&) {
  if (value == "torch-distributed") return mapped("ranks have torchrun's environment");
  if (!value.is_string()) return broken("must be the name of a runtime, found " + value.dump());
  return refused("what the runtime " + value.get<std::string>() + " adds is not in this file");
}

Table trainjob_rows() {
  const std::string trainer = kTrainer;
  constexpr const char* kFetch = "nothing is fetched before a job: mount data and model";
  Table table = {
      {"spec.runtimeRef.name", take_runtime},
      {"spec.runtimeRef.kind", without_effect("there are no runtimes beside the job")},
      {"spec.runtimeRef.apiGroup", without_effect("there are no runtimes beside the job")},
      {trainer + "image", same("image")},
      {trainer + "command", same("command")},
      {trainer + "args", same("args")},
      {trainer + "env", take_env},
      {trainer + "numNodes", take_nodes},
      {trainer + "numProcPerNode", take_processes_per_pod},
      {trainer + "resourcesPerNode", take_pod_resources},
      {"spec.initializer", refuse_unless_off(kFetch)},
      {"spec.suspend", take_suspend},
      {"spec.managedBy",
       always("trainer.kubeflow.org/trainjob-controller", "the operator runs the job")},
      {"spec.labels", into_template("metadata.labels")},
      {"spec.annotations", into_template("metadata.annotations")},
      {"spec.activeDeadlineSeconds", same("activeDeadlineSeconds")},
      {"spec.ttlSecondsAfterFinished", same("ttlSecondsAfterFinished")},
  };
  for (const char* const key : {"spec.podTemplateOverrides", "spec.podSpecOverrides",
                                "spec.runtimePatches", "spec.modelConfig", "spec.datasetConfig"}) {
    table.push_back({key, refuse_unless_off(kOverrides)});
  }
  return table;
}

}  // namespace

const Table& trainjob_table() {
  static const Table table = joined({object_rows(), trainjob_rows()});
  return table;
}

Conversion convert_trainjob(const common::Document& document) {
  Draft draft{.source = document.value};
  Conversion conversion{.tool = "TrainJob"};
  // Known before resourcesPerNode.
  const int64_t processes = count_of(draft, "numProcPerNode", 1);
  if (processes > 1) draft.spec["ranksPerPod"] = processes;
  take_all(trainjob_table(), document, draft, conversion.notes, conversion.problems);
  draft.assume("ranks", count_of(draft, "numNodes", 1) * processes, "one node, the default");
  fill_in_program(draft, "what the runtime runs by itself");
  move_into(conversion, std::move(draft));
  return conversion;
}

}  // namespace lockstep::convert

// Machines and processes of a launcher, as ranks and pods.
#pragma once

#include "operator/convert/table.h"

namespace lockstep::convert {

// num_processes, the total over all machines; ranks of a job.
std::optional<Verdict> take_processes(const nlohmann::json& value, Draft& draft);
// num_machines: with num_processes, ranks per pod.
std::optional<Verdict> take_machines(const nlohmann::json& value, Draft& draft);
// Processes of a pod or node: their number, or "auto", "gpu" or "cpu", which only the user can
// count.
std::optional<Verdict> take_processes_per_pod(const nlohmann::json& value, Draft& draft);
// A number, or a text of nothing but one: manifests have 4 and "4".
std::optional<int64_t> count_in(const nlohmann::json& value);
// num_processes / num_machines of the source; nothing if it does not say, or not evenly.
std::optional<int64_t> processes_per_machine(const Draft& draft);

}  // namespace lockstep::convert

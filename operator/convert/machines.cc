#include "operator/convert/machines.h"

namespace lockstep::convert {

using nlohmann::json;

namespace {

std::optional<int64_t> number_of(const Draft& draft, const char* key) {
  const json* found = draft.key(key);
  return found == nullptr ? std::nullopt : whole(*found);
}

}  // namespace

std::optional<int64_t> processes_per_machine(const Draft& draft) {
  const std::optional<int64_t> processes = number_of(draft, "num_processes");
  const int64_t machines = number_of(draft, "num_machines").value_or(1);
  if (!processes || machines < 1 || *processes % machines != 0) return std::nullopt;
  return *processes / machines;
}

std::optional<Verdict> take_processes(const json& value, Draft& draft) {
  const std::optional<int64_t> processes = whole(value);
  if (!processes || *processes < 1) {
    return broken("must be a number of processes, found " + value.dump());
  }
  return draft.map("ranks", *processes);
}

std::optional<Verdict> take_machines(const json& value, Draft& draft) {
  const std::optional<int64_t> machines = whole(value);
  if (!machines || *machines < 1) {
    return broken("must be a number of machines, found " + value.dump());
  }
  if (draft.key("num_processes") == nullptr) return changed("pods follow from ranks");
  const std::optional<int64_t> per_machine = processes_per_machine(draft);
  if (!per_machine) return broken("does not divide num_processes, which is their total");
  if (*machines == 1) return mapped("pods may share a node; ranksPerPod puts ranks in one");
  return draft.map("ranksPerPod", *per_machine, "num_processes / num_machines");
}

}  // namespace lockstep::convert

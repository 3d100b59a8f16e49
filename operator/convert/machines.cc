#include "operator/convert/machines.h"

#include <charconv>

namespace lockstep::convert {

using nlohmann::json;

std::optional<int64_t> processes_per_machine(const Draft& draft) {
  const std::optional<int64_t> processes = draft.count("num_processes");
  const int64_t machines = draft.count("num_machines").value_or(1);
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

std::optional<int64_t> count_in(const json& value) {
  if (!value.is_string()) return whole(value);
  const auto text = value.get<std::string>();
  int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  const bool is_number = error == std::errc() && end == text.data() + text.size();
  return is_number ? std::optional(number) : std::nullopt;
}

std::optional<Verdict> take_processes_per_pod(const json& value, Draft& draft) {
  const std::optional<int64_t> processes = count_in(value);
  if (processes && *processes >= 1) return draft.map("ranksPerPod", *processes);
  if (value == "auto" || value == "gpu" || value == "cpu") {
    draft.fill_in("ranksPerPod", 1, "processes of a pod: its number of GPUs");
    return changed("a number: ranksPerPod");
  }
  return broken("must be a number, auto, gpu or cpu, found " + value.dump());
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

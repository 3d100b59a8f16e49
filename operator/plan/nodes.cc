#include "operator/plan/nodes.h"

#include <algorithm>
#include <cstddef>

#include "operator/api/job_fields.h"

namespace lockstep::plan {

bool count_node_failure(api::TrainingJobStatus& status, const std::string& node) {
  if (node.empty()) return false;
  std::vector<api::NodeFailures>& nodes = status.node_failures;
  auto found = std::find_if(nodes.begin(), nodes.end(),
                            [&](const api::NodeFailures& one) { return one.name == node; });
  if (found == nodes.end()) {
    constexpr auto kMost = static_cast<std::size_t>(api::kMaxNodeFailures);
    if (nodes.size() >= kMost) nodes.resize(kMost - 1);  // the last ones failed least
    nodes.push_back({.name = node});
    found = std::prev(nodes.end());
  }
  const int64_t count = ++found->count;
  std::stable_sort(nodes.begin(), nodes.end(),
                   [](const auto& a, const auto& b) { return a.count > b.count; });
  return count == kAvoidAfter;
}

std::vector<std::string> avoided_nodes(const api::TrainingJobStatus& status) {
  std::vector<std::string> names;
  for (const api::NodeFailures& node : status.node_failures) {
    if (node.count >= kAvoidAfter) names.push_back(node.name);
  }
  return names;
}

}  // namespace lockstep::plan

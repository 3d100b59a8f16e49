#include "operator/plan/resources.h"

#include <algorithm>
#include <optional>
#include <string>

#include "runtime/common/quantity.h"

namespace lockstep::plan {

using nlohmann::json;

json pod_resources(const json& of_a_rank, int64_t num_ranks) {
  json resources = of_a_rank;
  if (num_ranks == 1) return resources;
  for (const char* kind : {"limits", "requests"}) {
    if (!resources.contains(kind) || !resources[kind].is_object()) continue;
    for (auto& [name, quantity] : resources[kind].items()) {
      const std::string text = quantity.is_string() ? quantity.get<std::string>() : quantity.dump();
      if (const std::optional<std::string> product = common::multiply_quantity(text, num_ranks)) {
        quantity = *product;
      }
    }
  }
  return resources;
}

namespace {

// What one container asks for: a request that is absent is the limit.
json requests_of(const json& container) {
  json requests = json::object();
  const json resources =
      container.is_object() ? container.value("resources", json::object()) : json();
  for (const char* kind : {"limits", "requests"}) {
    if (!resources.is_object() || !resources.contains(kind)) continue;
    if (resources[kind].is_object()) requests.update(resources[kind]);
  }
  return requests;
}

}  // namespace

bool asks_for_gpu(const json& resources) {
  const json asked = requests_of({{"resources", resources}});
  return std::any_of(asked.items().begin(), asked.items().end(), [](const auto& item) {
    return item.key().starts_with("nvidia.com/") && item.value() != "0" && item.value() != 0;
  });
}

json pod_requests(const json& pod_spec, int64_t num_pods) {
  json sums = json::object();
  const json containers =
      pod_spec.is_object() ? pod_spec.value("containers", json::array()) : json::array();
  for (const json& container : containers) {
    const json requests = requests_of(container);
    for (const auto& [name, quantity] : requests.items()) {
      const std::string text = quantity.is_string() ? quantity.get<std::string>() : quantity.dump();
      std::optional<std::string> sum = common::multiply_quantity(text, num_pods);
      if (sum && sums.contains(name)) {
        sum = common::add_quantities(sums[name].get<std::string>(), *sum);
      }
      if (sum) sums[name] = *sum;
    }
  }
  return sums;
}

}  // namespace lockstep::plan

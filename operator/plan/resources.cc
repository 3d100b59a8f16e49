#include "operator/plan/resources.h"

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

}  // namespace lockstep::plan

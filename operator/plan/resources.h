// What a pod asks of its node.
#pragma once

#include <cstdint>

#include <nlohmann/json.hpp>

namespace lockstep::plan {

// The resources of a container that holds `num_ranks` ranks (at least 1), each of which needs
// `of_a_rank`: {"limits": {name: quantity}, "requests": ...}. What is no quantity stays as it is:
// the API server refuses it by name.
nlohmann::json pod_resources(const nlohmann::json& of_a_rank, int64_t num_ranks);

}  // namespace lockstep::plan

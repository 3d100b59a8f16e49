// What a pod asks of its node.
#pragma once

#include <cstdint>

#include <nlohmann/json.hpp>

namespace lockstep::plan {

// The resources of a container that holds `num_ranks` ranks (at least 1), each of which needs
// `of_a_rank`: {"limits": {name: quantity}, "requests": ...}. What is no quantity stays as it is:
// the API server refuses it by name.
nlohmann::json pod_resources(const nlohmann::json& of_a_rank, int64_t num_ranks);

// What `num_pods` pods (at least 1) with the spec `pod_spec` ask of their nodes at least: {name:
// quantity}, the sum over their containers, of requests, or limits where there are none. What init
// containers ask for more is left out, and so is what is no quantity.
nlohmann::json pod_requests(const nlohmann::json& pod_spec, int64_t num_pods);

// Whether a container with these resources gets a GPU, or a part of one, of NVIDIA's device plugin.
bool asks_for_gpu(const nlohmann::json& resources);

}  // namespace lockstep::plan

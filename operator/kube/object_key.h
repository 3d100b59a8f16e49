// The name of an object among those of its type.
#pragma once

#include <string>

#include <nlohmann/json.hpp>

namespace lockstep::kube {

struct ObjectKey {
  std::string ns;  // empty for cluster-wide types
  std::string name;
  auto operator<=>(const ObjectKey&) const = default;
};

inline std::string to_string(const ObjectKey& key) {
  return key.ns.empty() ? key.name : key.ns + "/" + key.name;
}

// Key in an object's metadata. Throws nlohmann::json::exception if there is no name.
ObjectKey key_of(const nlohmann::json& object);
// metadata.resourceVersion, or empty.
std::string version_of(const nlohmann::json& object);

// True if resource version `a` is older than `b`. Versions are decimal numbers without leading
// zeros; if one is not, no order is known and the answer is false.
// Source: kubernetes/apimachinery pkg/util/resourceversion.
bool is_older(const std::string& a, const std::string& b);

}  // namespace lockstep::kube

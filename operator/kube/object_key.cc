#include "operator/kube/object_key.h"

#include <algorithm>

namespace lockstep::kube {
namespace {

bool is_well_formed(const std::string& version) {
  return !version.empty() && version.front() != '0' &&
         std::all_of(version.begin(), version.end(), [](char c) { return c >= '0' && c <= '9'; });
}

}  // namespace

ObjectKey key_of(const nlohmann::json& object) {
  const nlohmann::json& metadata = object.at("metadata");
  return {metadata.value("namespace", ""), metadata.at("name").get<std::string>()};
}

std::string version_of(const nlohmann::json& object) {
  const auto metadata = object.find("metadata");
  if (metadata == object.end() || !metadata->is_object()) return "";
  const auto version = metadata->find("resourceVersion");
  if (version == metadata->end() || !version->is_string()) return "";
  return version->get<std::string>();
}

bool is_older(const std::string& a, const std::string& b) {
  if (!is_well_formed(a) || !is_well_formed(b)) return false;
  return a.size() != b.size() ? a.size() < b.size() : a < b;
}

}  // namespace lockstep::kube

#include "runtime/common/env_names.h"

#include <algorithm>
#include <utility>

#include "runtime/common/suggest.h"

namespace lockstep::common {
namespace {

constexpr std::string_view kOurEnvPrefix = "LOCKSTEP_";
constexpr int64_t kMaxVariables = 32;

}  // namespace

const std::vector<std::string>& reserved_env_names() {
  static const std::vector<std::string> names = {"RANK",
                                                 "WORLD_SIZE",
                                                 "LOCAL_RANK",
                                                 "LOCAL_WORLD_SIZE",
                                                 "MASTER_ADDR",
                                                 "MASTER_PORT",
                                                 "PET_NNODES",
                                                 "PET_NODE_RANK",
                                                 "PET_MASTER_ADDR",
                                                 "PET_MASTER_PORT",
                                                 "PET_NPROC_PER_NODE",
                                                 "POD_NAME",
                                                 "POD_NAMESPACE",
                                                 "POD_IP",
                                                 "NODE_NAME"};
  return names;
}

bool is_reserved_env(std::string_view name) {
  const std::vector<std::string>& names = reserved_env_names();
  return name.starts_with(kOurEnvPrefix) ||
         std::find(names.begin(), names.end(), name) != names.end();
}

std::string cel_not_reserved(const std::string& name) {
  std::vector<std::string> reserved;
  reserved.reserve(reserved_env_names().size());
  for (const std::string& word : reserved_env_names()) reserved.push_back("'" + word + "'");
  return "!(" + name + " in [" + join(reserved) + "]) && !" + name + ".startsWith('" +
         std::string(kOurEnvPrefix) + "')";
}

Field env_map(std::string name, std::string doc) {
  return {.name = std::move(name),
          .type = FieldType::kMap,
          .doc = std::move(doc),
          .max_items = kMaxVariables,
          .element = {{.max_length = kMaxEnvValueLength}},
          .rules = {{"self.all(name, size(name) <= " + std::to_string(kMaxEnvNameLength) +
                         " && name.matches('" + kEnvNamePattern + "'))",
                     std::string("names of variables must be ") + kEnvNameHint, ""},
                    {"self.all(name, " + cel_not_reserved("name") + ")",
                     "the operator sets these variables itself", ""}}};
}

Problems check_env_map(const nlohmann::json& env, const std::string& path) {
  Problems problems;
  if (!env.is_object()) return problems;
  for (const auto& [name, value] : env.items()) {
    if (is_reserved_env(name)) {
      problems.push_back({.path = child_path(path, name),
                          .message = name + " is set by the operator itself",
                          .hint = "remove it"});
    } else if (static_cast<int64_t>(name.size()) > kMaxEnvNameLength ||
               !matches(name, kEnvNamePattern)) {
      problems.push_back({.path = child_path(path, name),
                          .message = std::string("names of variables must be ")
                                         .append(kEnvNameHint)
                                         .append(", at most ")
                                         .append(std::to_string(kMaxEnvNameLength)),
                          .hint = "rename it"});
    }
  }
  return problems;
}

}  // namespace lockstep::common

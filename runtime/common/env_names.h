// Names of environment variables: which are ours alone, and what names look like.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

#include "runtime/common/problem.h"
#include "runtime/common/schema.h"

namespace lockstep::common {

inline constexpr const char* kEnvNamePattern = "^[A-Za-z_][A-Za-z0-9_]*$";
inline constexpr const char* kEnvNameHint = "letters, digits and '_'";
inline constexpr int64_t kMaxEnvNameLength = 128;
inline constexpr int64_t kMaxEnvValueLength = 4096;

// Environment variables that the operator sets and a job must not: these, and every LOCKSTEP_ one.
const std::vector<std::string>& reserved_env_names();
bool is_reserved_env(std::string_view name);
// The same in CEL: true if the text `name` stands for is not reserved.
std::string cel_not_reserved(const std::string& name);

// A field that is a map of variables to their values.
Field env_map(std::string name, std::string doc);
// What is wrong with the names in `env`, found at `path`; of values the table of fields tells.
Problems check_env_map(const nlohmann::json& env, const std::string& path);

}  // namespace lockstep::common

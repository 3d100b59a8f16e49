// The arrows of the structure (design section 5): which folder may include which.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep::repo {

// "operator/plan" of "operator/plan/render.cc"; the first two parts of a source path.
std::string module_of(std::string_view path);

// Why `file` may not include `included` (both paths from the root); nothing if it may.
std::optional<std::string> forbidden_include(std::string_view file, std::string_view included);

// Paths of our own headers that a source text includes, in order.
std::vector<std::string> project_includes(std::string_view source);

}  // namespace lockstep::repo

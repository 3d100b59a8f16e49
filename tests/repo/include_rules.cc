#include "tests/repo/include_rules.h"

#include <map>
#include <set>
#include <sstream>

namespace lockstep::repo {

namespace {

// Every module and what it may include besides itself. A module that is absent here is a new arrow
// to decide about, so it is an error.
const std::map<std::string, std::set<std::string>>& allowed_includes() {
  static const std::map<std::string, std::set<std::string>> kAllowed = {
      {"runtime/common", {}},
      {"runtime/kernels", {"runtime/common"}},
      {"runtime/model", {"runtime/common", "runtime/kernels"}},
      {"runtime/launch", {"runtime/common"}},
      {"runtime/optim", {"runtime/common", "runtime/kernels"}},
      {"runtime/text", {"runtime/common"}},
      {"runtime/data",  // files that survive a crash
       {"runtime/common", "runtime/checkpoint", "runtime/text"}},
      {"runtime/hub", {"runtime/common", "runtime/data"}},  // patterns of files
      {"runtime/comm", {"runtime/common"}},
      {"runtime/checkpoint", {"runtime/common"}},
      {"runtime/tracking",  // addresses and proxies
       {"runtime/common", "runtime/checkpoint", "runtime/hub"}},
      {"runtime/offload", {"runtime/common", "runtime/checkpoint"}},
      {"runtime/parallel",
       {"runtime/common", "runtime/kernels", "runtime/model", "runtime/optim", "runtime/data",
        "runtime/comm", "runtime/checkpoint", "runtime/offload"}},
      {"runtime/train",
       {"runtime/common", "runtime/kernels", "runtime/model", "runtime/optim", "runtime/data",
        "runtime/comm", "runtime/checkpoint", "runtime/offload", "runtime/parallel", "runtime/text",
        "runtime/hub", "runtime/tracking"}},
      {"runtime/custom",
       {"runtime/common", "runtime/kernels", "runtime/model", "runtime/optim", "runtime/data",
        "runtime/comm", "runtime/checkpoint", "runtime/offload", "runtime/parallel",
        "runtime/train"}},
      {"operator/api", {"runtime/common"}},
      {"operator/plan", {"runtime/common", "operator/api"}},
      {"operator/kube", {"runtime/common"}},
      {"operator/controller", {"runtime/common", "operator/api", "operator/plan", "operator/kube"}},
      {"operator/local", {"runtime/common", "operator/api", "operator/plan"}},
      {"operator/convert", {"runtime/common", "operator/api"}},
      {"operator/runs", {"runtime/common"}},
      {"operator/machine", {"runtime/common", "operator/runs"}},  // how numbers are written
      {"operator/wizard", {"runtime/common", "operator/api"}},
      {"operator/cli",
       {"runtime/common", "operator/api", "operator/plan", "operator/kube", "operator/controller",
        "operator/local", "operator/convert", "operator/runs", "operator/wizard",
        "operator/machine"}},
  };
  return kAllowed;
}

}  // namespace

std::string module_of(std::string_view path) {
  const size_t first = path.find('/');
  if (first == std::string_view::npos) return std::string(path);
  const size_t second = path.find('/', first + 1);
  return std::string(path.substr(0, second));
}

std::optional<std::string> forbidden_include(std::string_view file, std::string_view included) {
  const std::string from = module_of(file);
  const std::string to = module_of(included);
  if (from == to || from.starts_with("tests/")) return std::nullopt;
  const auto rule = allowed_includes().find(from);
  if (rule == allowed_includes().end()) return from + " has no include rule";
  if (rule->second.contains(to)) return std::nullopt;
  return from + " may not include " + to;
}

std::vector<std::string> project_includes(std::string_view source) {
  std::vector<std::string> found;
  std::istringstream lines{std::string(source)};
  constexpr std::string_view kDirective = "#include \"";
  for (std::string line; std::getline(lines, line);) {
    if (!line.starts_with(kDirective)) continue;
    const size_t end = line.find('"', kDirective.size());
    found.push_back(line.substr(kDirective.size(), end - kDirective.size()));
  }
  return found;
}

}  // namespace lockstep::repo

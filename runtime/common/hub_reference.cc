#include "runtime/common/hub_reference.h"

#include <algorithm>
#include <cctype>
#include <utility>

namespace lockstep::common {
namespace {

constexpr std::string_view kDatasets = "datasets/";
constexpr const char* kForm = "hf://ORG/NAME[@REVISION][/PATH]";

// One expression for our check and for the API server's.
std::string reference_pattern(HubKind kind) {
  const std::string prefix = kind == HubKind::kDataset ? "(datasets/)?" : "";
  const std::string name = "[A-Za-z0-9_][A-Za-z0-9_.-]*";
  return "^hf://" + prefix + name + "/" + name +
         "(@(refs/(pr|convert)/)?[A-Za-z0-9_][A-Za-z0-9_.%-]*)?" + "(/[^/[:cntrl:]]+)*/?$";
}

std::string pattern_hint(HubKind kind) {
  return kind == HubKind::kModel ? std::string("write it as ").append(kForm)
                                 : std::string("write it as ")
                                       .append(kForm)
                                       .append(", e.g. hf://ORG/NAME/data/*.jsonl");
}

bool starts_with_word(std::string_view rest, std::string_view word) {
  return rest.starts_with(word) && rest.find('/', word.size()) != std::string_view::npos;
}

// Takes what comes before the next of `ends` from the front of `rest`.
std::string take_until(std::string_view& rest, std::string_view ends) {
  const std::size_t end = std::min(rest.find_first_of(ends), rest.size());
  std::string taken(rest.substr(0, end));
  rest.remove_prefix(end);
  return taken;
}

std::string take_revision(std::string_view& rest) {
  std::string written = take_until(rest, "/");
  if (written == "refs") {  // refs/pr/N
    for (int part = 0; part < 2; ++part) {
      rest.remove_prefix(1);
      written.append("/").append(take_until(rest, "/"));
    }
  }
  std::string revision;
  for (std::string_view left = written; !left.empty();) {
    const bool is_slash = left.starts_with("%2F") || left.starts_with("%2f");
    revision.push_back(is_slash ? '/' : left.front());
    left.remove_prefix(is_slash ? 3 : 1);
  }
  return revision;
}

}  // namespace

bool is_hub_reference(std::string_view text) {
  return text.starts_with(kHubScheme);
}

Result<HubReference> parse_hub_reference(std::string_view text, HubKind kind) {
  const std::string whole(text);
  std::string_view rest = text;
  rest.remove_prefix(std::min(kHubScheme.size(), rest.size()));
  for (const std::string_view other : {"datasets/", "spaces/", "models/"}) {
    const bool is_own = kind == HubKind::kDataset && other == kDatasets;
    if (is_own || !starts_with_word(rest, other)) continue;
    return Error{ErrorCode::kInvalidArgument, whole + " names " + std::string(other) + "...",
                 pattern_hint(kind)};
  }
  if (!matches(whole, reference_pattern(kind)) || whole.find("..") != std::string::npos) {
    return Error{ErrorCode::kInvalidArgument, whole + " is no reference to the hub",
                 pattern_hint(kind)};
  }
  if (starts_with_word(rest, kDatasets)) rest.remove_prefix(kDatasets.size());
  HubReference reference{.kind = kind, .repo = take_until(rest, "/")};
  rest.remove_prefix(1);
  reference.repo.append("/").append(take_until(rest, "/@"));
  if (rest.starts_with('@')) {
    rest.remove_prefix(1);
    reference.revision = take_revision(rest);
  }
  if (rest.starts_with('/')) rest.remove_prefix(1);
  if (rest.ends_with('/')) rest.remove_suffix(1);
  reference.path = std::string(rest);
  return reference;
}

std::string repository_name(const HubReference& reference) {
  const std::string_view prefix = reference.kind == HubKind::kDataset ? kDatasets : "";
  return std::string(kHubScheme).append(prefix) + reference.repo + "@" + reference.revision;
}

bool is_commit(std::string_view revision) {
  constexpr std::size_t kDigits = 40;
  return revision.size() == kDigits && std::all_of(revision.begin(), revision.end(), [](char c) {
           return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
         });
}

CelRule hub_rule(const std::string& field, HubKind kind) {
  const std::string self = "self." + field;
  const std::string others =
      kind == HubKind::kDataset ? "(spaces|models)" : "(datasets|spaces|models)";
  return {.rule = "!has(" + self + ") || !" + self + ".startsWith('hf://') || (" + self +
                  ".matches('" + reference_pattern(kind) + "') && !" + self +
                  ".contains('..') && !" + self + ".matches('^hf://" + others + "/[^/]*/'))",
          .message = pattern_hint(kind),
          .field_path = "." + field};
}

}  // namespace lockstep::common

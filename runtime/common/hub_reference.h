// hf://ORG/NAME[@REVISION][/PATH]: a model or a data set on the Hugging Face hub, as a job names
// it.
#pragma once

#include <string>
#include <string_view>

#include "runtime/common/result.h"
#include "runtime/common/schema.h"

namespace lockstep::common {

enum class HubKind { kModel, kDataset };

struct HubReference {
  HubKind kind = HubKind::kModel;
  std::string repo;               // ORG/NAME
  std::string revision = "main";  // a branch, a tag, refs/pr/N, or a commit
  std::string path;               // in the repository; empty: all of it
  bool operator==(const HubReference&) const = default;
};

inline constexpr std::string_view kHubScheme = "hf://";
bool is_hub_reference(std::string_view text);

// Reads `text`, which a field for models or for data holds. "hf://datasets/ORG/NAME" may say of
// data what they are anyway; in a revision "%2F" stands for a slash. kInvalidArgument for what is
// no reference, or names the other kind.
Result<HubReference> parse_hub_reference(std::string_view text, HubKind kind);

// A repository at a revision in one spelling, without path: what a commit is found for.
//   "hf://ORG/NAME@REVISION", of data "hf://datasets/ORG/NAME@REVISION".
std::string repository_name(const HubReference& reference);

// Whether a revision is a whole commit, which never changes: 40 hexadecimal digits.
bool is_commit(std::string_view revision);

// The rule of a field (a child of `self`) that may hold a reference: refuses what
// parse_hub_reference() does.
CelRule hub_rule(const std::string& field, HubKind kind);

}  // namespace lockstep::common

// From what a user wrote in `data.train` to the files that are trained on.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/common/result.h"

namespace lockstep::runtime {

struct ExpandedPaths {
  std::vector<std::string> files;  // regular, readable, not empty; sorted bytewise, each once
  int64_t num_hidden_skipped = 0;  // files and folders whose name starts with a dot, below a folder
  int64_t num_binary_skipped = 0;  // as BinaryFiles says
  int64_t num_empty_skipped = 0;   // files of zero bytes
};

// What to do with files that have a NUL byte in their first 8 KiB.
enum class BinaryFiles {
  kSkip,               // and count
  kTake,               //
  kTakeRows,           // those that are named as such, see document_reader.h; skip others
  kTakeRowsAndTokens,  // the same, and token files, see token_file_format.h
};

// All alternatives of the braces in `pattern`, in order: "a{b,c}d" gives "abd" and "acd"; nested
// braces work; braces that do not match are kept as they are.
std::vector<std::string> expand_braces(std::string_view pattern);

// The files behind `pattern`: a path, a folder (searched recursively) or a glob with * ? [] and {}.
// A path that exists under exactly this name is never read as a glob.
// Errors: kNotFound if a path without wildcards is missing or nothing matches; kInvalidArgument
// "empty corpus" if every file was skipped, or for "**"; kPermissionDenied for what cannot be read.
common::Result<ExpandedPaths> expand_paths(const std::string& pattern,
                                           BinaryFiles binary = BinaryFiles::kSkip);

}  // namespace lockstep::runtime

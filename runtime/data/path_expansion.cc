#include "runtime/data/path_expansion.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <system_error>

#include <glob.h>

#include "runtime/common/system_error.h"
#include "runtime/data/document_reader.h"
#include "runtime/data/token_file_format.h"

namespace lockstep::runtime {
namespace {

namespace fs = std::filesystem;
using common::Error;
using common::ErrorCode;
using common::Result;

constexpr std::size_t kBinaryProbeBytes = 8 * 1024;

bool has_wildcard(std::string_view pattern) {
  return pattern.find_first_of("*?[") != std::string_view::npos;
}

bool is_hidden(const fs::path& path) {
  const std::string name = path.filename().string();
  return !name.empty() && name.front() == '.';
}

bool is_taken(const fs::path& path, BinaryFiles binary) {
  const bool has_tokens = path.extension() == kTokenFileExtension;
  const bool has_rows = path.extension() == kParquetExtension;
  switch (binary) {
    case BinaryFiles::kSkip:
      return false;
    case BinaryFiles::kTake:
      return true;
    case BinaryFiles::kTakeRows:
      return has_rows;
    case BinaryFiles::kTakeRowsAndTokens:
      return has_rows || has_tokens;
  }
  return false;
}

// Adds `path` to `found`, unless it is empty or of a kind to skip.
Result<void> add_file(const fs::path& path, BinaryFiles binary, ExpandedPaths& found) {
  errno = 0;
  std::ifstream in(path, std::ios::binary);
  if (!in) return common::system_error("open", path.string(), errno);
  std::array<char, kBinaryProbeBytes> probe{};
  in.read(probe.data(), probe.size());
  if (in.bad()) return common::system_error("read", path.string(), errno);
  const auto num_read = static_cast<std::size_t>(in.gcount());
  if (num_read == 0) {
    ++found.num_empty_skipped;
  } else if (std::memchr(probe.data(), 0, num_read) != nullptr && !is_taken(path, binary)) {
    ++found.num_binary_skipped;
  } else {
    found.files.push_back(path.lexically_normal().string());
  }
  return {};
}

// Adds the files below `folder`. Links to files count as files; links to folders are not followed,
// so that a cycle cannot trap us.
Result<void> add_folder(const fs::path& folder, BinaryFiles binary, ExpandedPaths& found) {
  std::error_code error;
  fs::directory_iterator entry(folder, error);
  if (error) return common::system_error("list", folder.string(), error.value());
  for (; entry != fs::directory_iterator(); entry.increment(error)) {
    if (is_hidden(entry->path())) {
      ++found.num_hidden_skipped;
    } else if (entry->is_directory(error) && !entry->is_symlink(error)) {
      RETURN_IF_ERROR(add_folder(entry->path(), binary, found));
    } else if (entry->is_regular_file(error)) {
      RETURN_IF_ERROR(add_file(entry->path(), binary, found));
    }
  }
  if (error) return common::system_error("list", folder.string(), error.value());
  return {};
}

Result<void> add_path(const fs::path& path, BinaryFiles binary, ExpandedPaths& found) {
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  if (fs::is_directory(status)) return add_folder(path, binary, found);
  if (fs::is_regular_file(status)) return add_file(path, binary, found);
  if (!fs::exists(status)) {
    return common::system_error("read", path.string(), error ? error.value() : ENOENT);
  }
  return Error{ErrorCode::kInvalidArgument, path.string() + " is neither a file nor a folder", ""};
}

Result<std::vector<std::string>> match_glob(const std::string& pattern) {
  glob_t matches = {};
  const int status = ::glob(pattern.c_str(), GLOB_ERR, nullptr, &matches);
  std::vector<std::string> paths;
  paths.reserve(matches.gl_pathc);
  for (std::size_t i = 0; i < matches.gl_pathc; ++i) paths.emplace_back(matches.gl_pathv[i]);
  ::globfree(&matches);
  if (status == GLOB_NOSPACE) return common::system_error("expand", pattern, ENOMEM);
  if (status == GLOB_ABORTED) {
    return Error{ErrorCode::kPermissionDenied, "cannot list a folder of the pattern " + pattern,
                 "check the permissions of the folders that the pattern names"};
  }
  return paths;
}

// The paths that one alternative of `pattern` stands for; they exist.
Result<std::vector<std::string>> match_alternative(const std::string& alternative,
                                                   const std::string& pattern) {
  std::error_code error;
  if (fs::exists(alternative, error)) return std::vector<std::string>{alternative};
  if (has_wildcard(alternative)) return match_glob(alternative);
  if (error && error.value() != ENOENT && error.value() != ENOTDIR) {
    return common::system_error("read", alternative, error.value());
  }
  const std::string of = alternative == pattern ? "" : " (of " + pattern + ")";
  return Error{ErrorCode::kNotFound, "no such file or folder: " + alternative + of,
               "relative paths start at " + fs::current_path(error).string()};
}

}  // namespace

std::vector<std::string> expand_braces(std::string_view pattern) {
  std::size_t depth = 0;
  std::size_t open = std::string_view::npos;
  std::vector<std::size_t> cuts;  // the outermost pair: its brace, commas, closing brace
  for (std::size_t i = 0; i < pattern.size(); ++i) {
    if (pattern[i] == '{' && depth++ == 0) {
      open = i;
      cuts = {i};
    } else if (pattern[i] == ',' && depth == 1) {
      cuts.push_back(i);
    } else if (pattern[i] == '}' && depth > 0 && --depth == 0) {
      cuts.push_back(i);
      break;
    }
  }
  if (open == std::string_view::npos || depth != 0) return {std::string(pattern)};
  const std::string head(pattern.substr(0, open));
  const std::vector<std::string> tails = expand_braces(pattern.substr(cuts.back() + 1));
  std::vector<std::string> expanded;
  for (std::size_t i = 0; i + 1 < cuts.size(); ++i) {
    const std::string_view middle = pattern.substr(cuts[i] + 1, cuts[i + 1] - cuts[i] - 1);
    for (const std::string& alternative : expand_braces(middle)) {
      for (const std::string& tail : tails) expanded.push_back(head + alternative + tail);
    }
  }
  return expanded;
}

Result<ExpandedPaths> expand_paths(const std::string& pattern, BinaryFiles binary) {
  std::error_code error;
  const bool is_literal = fs::exists(pattern, error);
  if (!is_literal && pattern.find("**") != std::string::npos) {
    return Error{ErrorCode::kInvalidArgument, "\"**\" is not supported in " + pattern,
                 "name the folder: folders are searched recursively"};
  }
  const std::vector<std::string> alternatives =
      is_literal ? std::vector<std::string>{pattern} : expand_braces(pattern);
  ExpandedPaths found;
  bool any_match = false;
  for (const std::string& alternative : alternatives) {
    ASSIGN_OR_RETURN(const std::vector<std::string> paths, match_alternative(alternative, pattern));
    any_match = any_match || !paths.empty();
    for (const std::string& path : paths) RETURN_IF_ERROR(add_path(path, binary, found));
  }
  if (!any_match) {
    return Error{ErrorCode::kNotFound, "no file matches " + pattern,
                 "relative paths start at " + fs::current_path(error).string()};
  }
  std::sort(found.files.begin(), found.files.end());
  found.files.erase(std::unique(found.files.begin(), found.files.end()), found.files.end());
  if (found.files.empty()) {
    return Error{
        ErrorCode::kInvalidArgument,
        "empty corpus: " + pattern +
            " holds no text (skipped: " + std::to_string(found.num_empty_skipped) + " empty, " +
            std::to_string(found.num_binary_skipped) + " binary, " +
            std::to_string(found.num_hidden_skipped) + " hidden)",
        "name a file or folder with text; hidden files and files with NUL bytes are skipped"};
  }
  return found;
}

}  // namespace lockstep::runtime

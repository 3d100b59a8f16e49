// Note [Files of a data set] in choose_files.h.
#include <algorithm>
#include <array>
#include <cctype>
#include <set>
#include <utility>

#include <fnmatch.h>

#include "runtime/common/suggest.h"
#include "runtime/data/path_expansion.h"
#include "runtime/hub/choose_files.h"

namespace lockstep::runtime {
namespace {

using common::Error;
using common::ErrorCode;
using common::Result;
using Format = common::DataConfig::Format;

enum class NamedPart { kNone, kTrain, kValidation, kTest };

// Extensions of one kind of files.
using Kind = std::vector<std::string_view>;

std::vector<Kind> kinds_of(Format format) {
  const Kind lines = {".jsonl", ".ndjson"};
  const Kind parquet = {".parquet"};
  const Kind tables = {".csv", ".tsv"};
  const Kind json = {".json"};
  const Kind tokens = {".tokens"};
  const Kind text = {".txt"};
  switch (format) {
    case Format::kAuto:
      return {lines, parquet, tables, json, tokens, text};
    case Format::kText:
      return {text};
    case Format::kTokens:
      return {tokens, lines, parquet, json};
    default:
      return {lines, parquet, tables, json};
  }
}

bool is_of(const std::string& path, const Kind& kind) {
  return std::any_of(kind.begin(), kind.end(),
                     [&path](std::string_view end) { return path.ends_with(end); });
}

constexpr std::string_view kDescription = "dataset_infos.json";

bool has_hidden_part(std::string_view path) {
  return path.starts_with('.') || path.find("/.") != std::string_view::npos;
}

// The part that the words of a path tell.
NamedPart part_of(const std::string& path) {
  static const std::array<std::pair<NamedPart, std::set<std::string>>, 3> parts = {
      {{NamedPart::kTrain, {"train", "training"}},
       {NamedPart::kValidation, {"validation", "valid", "val", "dev"}},
       {NamedPart::kTest, {"test", "testing", "eval", "evaluation"}}}};
  std::string word;
  for (const char c : path + ".") {
    if (std::isalpha(static_cast<unsigned char>(c)) != 0) {
      word.push_back(static_cast<char>(std::tolower(static_cast<unsigned char>(c))));
      continue;
    }
    for (const auto& [part, words] : parts) {
      if (words.contains(word)) return part;
    }
    word.clear();
  }
  return NamedPart::kNone;
}

std::vector<std::string> of_part(const std::vector<std::string>& files, const std::string& folder,
                                 NamedPart part) {
  std::vector<std::string> chosen;
  for (const std::string& path : files) {
    if (part_of(path.substr(folder.size())) == part) chosen.push_back(path);
  }
  return chosen;
}

// Of files of one kind, those of the part that is asked for.
std::vector<std::string> choose_part(const std::vector<std::string>& files,
                                     const std::string& folder, DataPart part) {
  const std::vector<NamedPart> wanted =
      part == DataPart::kTrain ? std::vector<NamedPart>{NamedPart::kTrain, NamedPart::kNone}
                               : std::vector<NamedPart>{NamedPart::kValidation, NamedPart::kTest};
  for (const NamedPart named : wanted) {
    std::vector<std::string> chosen = of_part(files, folder, named);
    if (!chosen.empty()) return chosen;
  }
  return {};
}

std::string some_of(const std::vector<std::string>& files) {
  constexpr std::size_t kMost = 6;
  std::vector<std::string> listed(
      files.begin(), files.begin() + static_cast<std::ptrdiff_t>(std::min(files.size(), kMost)));
  if (files.size() > kMost) listed.emplace_back("...");
  return listed.empty() ? "nothing" : common::join(listed);
}

Error nothing_fits(const std::string& where, const std::vector<std::string>& files) {
  return Error{ErrorCode::kNotFound,
               "nothing that is trained on is " + where + ": it holds " + some_of(files),
               "name the files behind the repository, e.g. hf://ORG/NAME/data/*.jsonl"};
}

// Whether glob() would find `path` by `pattern`, itself or in a folder that the pattern names.
bool is_found(const std::string& path, const std::string& pattern) {
  for (std::size_t end = path.find('/');; end = path.find('/', end + 1)) {
    const std::string prefix = path.substr(0, end);
    if (fnmatch(pattern.c_str(), prefix.c_str(), FNM_PATHNAME | FNM_PERIOD) == 0) {
      return end == std::string::npos || !has_hidden_part(path.substr(end + 1));
    }
    if (end == std::string::npos) return false;
  }
}

Result<DataChoice> choose_matching(const RepoTree& tree, const std::string& pattern) {
  DataChoice choice{.files = {}, .pattern = pattern};
  std::set<std::string> found;
  for (const std::string& alternative : expand_braces(pattern)) {
    for (const auto& [path, file] : tree) {
      if (is_found(path, alternative)) found.insert(path);
    }
  }
  choice.files.assign(found.begin(), found.end());
  if (!choice.files.empty()) return choice;
  std::vector<std::string> all;
  all.reserve(tree.size());
  for (const auto& [path, file] : tree) all.push_back(path);
  return nothing_fits("named " + pattern + " in the repository", all);
}

// A pattern of exactly these files.
Result<std::string> pattern_of(const std::vector<std::string>& files) {
  for (const std::string& path : files) {
    if (path.find_first_of("{},*?[]\\") == std::string::npos) continue;
    return Error{ErrorCode::kInvalidArgument, "'" + path + "' has characters of a pattern",
                 "name the files by a pattern of your own"};
  }
  if (files.size() == 1) return files.front();
  return std::string("{").append(common::join(files, ",")).append("}");
}

}  // namespace

Result<DataChoice> choose_data_files(const RepoTree& tree, const std::string& path, DataPart part,
                                     Format format) {
  if (tree.contains(path)) return DataChoice{.files = {path}, .pattern = path};
  if (path.find_first_of("*?[{") != std::string::npos) return choose_matching(tree, path);
  const std::string folder = path.empty() ? "" : path + "/";
  std::vector<std::string> inside;
  for (const auto& [file_path, file] : tree) {
    const bool is_visible =
        !has_hidden_part(file_path.substr(std::min(folder.size(), file_path.size())));
    const bool describes_data = file_path == kDescription;
    if (file_path.starts_with(folder) && is_visible && !describes_data) {
      inside.push_back(file_path);
    }
  }
  for (const Kind& kind : kinds_of(format)) {
    std::vector<std::string> files;
    for (const std::string& file : inside) {
      if (is_of(file, kind)) files.push_back(file);
    }
    DataChoice choice{.files = choose_part(files, folder, part), .pattern = {}};
    if (choice.files.empty()) continue;
    ASSIGN_OR_RETURN(choice.pattern, pattern_of(choice.files));
    return choice;
  }
  const std::string where =
      path.empty() ? "in the repository" : "in " + path + " of the repository";
  return nothing_fits(part == DataPart::kTrain ? where : where + " for validation", inside);
}

}  // namespace lockstep::runtime

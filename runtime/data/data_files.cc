#include "runtime/data/data_files.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <fstream>
#include <system_error>

#include <nlohmann/json.hpp>
#include <sys/stat.h>

#include "runtime/common/mapped_file.h"
#include "runtime/common/system_error.h"
#include "runtime/data/conversation_layout.h"
#include "runtime/data/file_fingerprint.h"
#include "runtime/data/json_documents.h"

namespace lockstep::runtime {
namespace {

using common::Error;
using common::ErrorCode;
using common::Result;
using Format = common::DataConfig::Format;

bool is_json_lines(const std::string& path) {
  return path.ends_with(".jsonl") || path.ends_with(".ndjson");
}

bool is_token_file(const std::string& path) {
  return path.ends_with(kTokenFileExtension);
}

// The files for which `belongs` does not hold make an error.
Result<void> require_all(const std::vector<std::string>& files, bool (*belongs)(const std::string&),
                         const std::string& what) {
  const auto stranger = std::find_if_not(files.begin(), files.end(), belongs);
  if (stranger == files.end()) return {};
  return Error{ErrorCode::kInvalidArgument, *stranger + " " + what,
               "name files of one kind, or set train.data.format"};
}

// The first line that is not blank; an empty one if there is none.
Result<std::string> first_line(const std::string& path) {
  errno = 0;
  std::ifstream in(path, std::ios::binary);
  if (!in) return common::system_error("open", path, errno);
  for (std::string line; std::getline(in, line);) {
    if (line.find_first_not_of(" \t\r") != std::string::npos) return line;
  }
  return std::string();
}

Result<SourceKind> kind_by_name(const std::vector<std::string>& files) {
  if (is_token_file(files.front())) {
    RETURN_IF_ERROR(require_all(files, is_token_file, "lies among *.tokens"));
    return SourceKind::kTokenFiles;
  }
  if (is_json_lines(files.front())) {
    RETURN_IF_ERROR(require_all(files, is_json_lines, "lies among *.jsonl"));
    ASSIGN_OR_RETURN(const std::string line, first_line(files.front()));
    return is_token_line(line) ? SourceKind::kJsonTokens : SourceKind::kJsonText;
  }
  const auto is_text = [](const std::string& path) {
    return !is_token_file(path) && !is_json_lines(path);
  };
  RETURN_IF_ERROR(require_all(files, is_text, "lies among text files"));
  return SourceKind::kText;
}

Result<SourceKind> kind_of(const std::vector<std::string>& files, Format format) {
  switch (format) {
    case Format::kAuto:
      return kind_by_name(files);
    case Format::kText:
      return SourceKind::kText;
    case Format::kJsonl:
      return SourceKind::kJsonText;
    case Format::kMessages:
      return SourceKind::kConversations;
    case Format::kTokens:
      break;
  }
  if (!is_json_lines(files.front())) return SourceKind::kTokenFiles;
  RETURN_IF_ERROR(require_all(files, is_json_lines, "lies among *.jsonl"));
  return SourceKind::kJsonTokens;
}

}  // namespace

Result<DataFiles> find_data(const std::string& pattern, Format format) {
  // A token file has bytes 0 in it; so has another program's, which is refused by its name.
  const BinaryFiles binary = format == Format::kTokens ? BinaryFiles::kTake
                             : format == Format::kAuto ? BinaryFiles::kTakeTokenFiles
                                                       : BinaryFiles::kSkip;
  DataFiles found;
  ASSIGN_OR_RETURN(found.paths, expand_paths(pattern, binary));
  ASSIGN_OR_RETURN(found.kind, kind_of(found.paths.files, format));
  return found;
}

Result<DataFiles> find_conversations(const std::string& pattern, const common::DataConfig& config) {
  ASSIGN_OR_RETURN(DataFiles found, find_data(pattern, config.format));
  if (config.format != Format::kAuto || found.kind != SourceKind::kJsonText) return found;
  ASSIGN_OR_RETURN(const std::string line, first_line(found.paths.files.front()));
  const auto row = nlohmann::ordered_json::parse(line, nullptr, false);
  const bool is_text = row.is_object() && row.contains(config.text_column) &&
                       !find_layout(row, config.conversation_columns);
  if (!is_text) found.kind = SourceKind::kConversations;
  return found;
}

Result<std::string> token_file_name(const TokenizeOptions& options, const Tokenizer& tokenizer) {
  const std::filesystem::path folder = common_folder(options.files);
  FileFingerprint fingerprint;
  for (const std::string& path : options.files) {
    struct stat status = {};
    if (::stat(path.c_str(), &status) != 0) return common::system_error("stat", path, errno);
    ASSIGN_OR_RETURN(const common::MappedFile file, common::MappedFile::open(path));
    fingerprint.add_file(std::filesystem::path(path).lexically_relative(folder), file.bytes());
    fingerprint.add(std::to_string(status.st_mtim.tv_sec) + "." +
                    std::to_string(status.st_mtim.tv_nsec));
  }
  for (const std::string& decisive :
       {std::to_string(static_cast<int>(options.kind)), options.text_column,
        options.conversations == nullptr ? tokenizer.name() : options.conversations->name(),
        std::to_string(options.num_token_ids)}) {
    fingerprint.add(":" + decisive);
  }
  std::array<char, 40> name{};
  std::snprintf(name.data(), name.size(), "%016llx%s",
                static_cast<unsigned long long>(fingerprint.hash()),
                std::string(kTokenFileExtension).c_str());
  return std::string(name.data());
}

}  // namespace lockstep::runtime

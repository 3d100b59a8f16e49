#include "runtime/data/data_files.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <string_view>
#include <system_error>

#include <nlohmann/json.hpp>
#include <sys/stat.h>

#include "runtime/common/mapped_file.h"
#include "runtime/common/system_error.h"
#include "runtime/data/conversation_layout.h"
#include "runtime/data/document_reader.h"
#include "runtime/data/file_fingerprint.h"
#include "runtime/data/json_documents.h"

namespace lockstep::runtime {
namespace {

using common::Error;
using common::ErrorCode;
using common::Result;
using Format = common::DataConfig::Format;

constexpr const char* kAmongRows = "lies among files of rows (*.jsonl, *.json, *.csv, *.parquet)";

bool is_token_file(std::string_view path) {
  return path.ends_with(kTokenFileExtension);
}

// The files for which `belongs` does not hold make an error.
Result<void> require_all(const std::vector<std::string>& files, bool (*belongs)(std::string_view),
                         const std::string& what) {
  const auto stranger = std::find_if_not(files.begin(), files.end(), belongs);
  if (stranger == files.end()) return {};
  return Error{ErrorCode::kInvalidArgument, *stranger + " " + what,
               "name files of one kind, or set train.data.format"};
}

// Of files of rows.
Result<SourceKind> kind_of_rows(const std::vector<std::string>& files) {
  ASSIGN_OR_RETURN(const FirstRow row, first_row(files.front()));
  return is_token_line(row.text) ? SourceKind::kRowTokens : SourceKind::kRowTexts;
}

Result<SourceKind> kind_by_name(const std::vector<std::string>& files) {
  if (is_token_file(files.front())) {
    RETURN_IF_ERROR(require_all(files, is_token_file, "lies among *.tokens"));
    return SourceKind::kTokenFiles;
  }
  if (std::all_of(files.begin(), files.end(), is_row_file)) return kind_of_rows(files);
  if (is_surely_row_file(files.front())) {
    RETURN_IF_ERROR(require_all(files, is_row_file, kAmongRows));
  }
  const auto is_text = [](std::string_view path) {
    return !is_token_file(path) && !is_surely_row_file(path);
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
      return SourceKind::kRowTexts;
    case Format::kMessages:
      return SourceKind::kConversations;
    case Format::kTokens:
      break;
  }
  if (!is_row_file(files.front())) return SourceKind::kTokenFiles;
  RETURN_IF_ERROR(require_all(files, is_row_file, kAmongRows));
  return SourceKind::kRowTokens;
}

// Token files and Parquet have bytes 0 in them; so has a file of another program's tokens, which is
// refused by its name.
BinaryFiles binary_files_of(Format format) {
  switch (format) {
    case Format::kText:
      return BinaryFiles::kSkip;
    case Format::kJsonl:
    case Format::kMessages:
      return BinaryFiles::kTakeRows;
    case Format::kAuto:
      return BinaryFiles::kTakeRowsAndTokens;
    case Format::kTokens:
      break;
  }
  return BinaryFiles::kTake;
}

// Among files that are no rows it is one more binary file.
void skip_parquet_among_others(ExpandedPaths& paths) {
  if (std::all_of(paths.files.begin(), paths.files.end(), is_row_file)) return;
  paths.num_binary_skipped += static_cast<int64_t>(std::erase_if(
      paths.files, [](const std::string& path) { return path.ends_with(kParquetExtension); }));
}

}  // namespace

Result<DataFiles> find_data(const std::string& pattern, Format format) {
  DataFiles found;
  ASSIGN_OR_RETURN(found.paths, expand_paths(pattern, binary_files_of(format)));
  if (format == Format::kAuto) skip_parquet_among_others(found.paths);
  ASSIGN_OR_RETURN(found.kind, kind_of(found.paths.files, format));
  return found;
}

Result<DataFiles> find_conversations(const std::string& pattern, const common::DataConfig& config) {
  ASSIGN_OR_RETURN(DataFiles found, find_data(pattern, config.format));
  if (config.format != Format::kAuto || found.kind != SourceKind::kRowTexts) return found;
  ASSIGN_OR_RETURN(const FirstRow first, first_row(found.paths.files.front()));
  const auto row = nlohmann::ordered_json::parse(first.text, nullptr, false);
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

#include "runtime/train/tokenizing.h"

#include <chrono>
#include <filesystem>
#include <memory>
#include <system_error>

#include "runtime/checkpoint/disk.h"
#include "runtime/data/byte_tokenizer.h"
#include "runtime/data/data_files.h"
#include "runtime/data/hf_text_tokenizer.h"
#include "runtime/train/run_error.h"

namespace lockstep::runtime {
namespace {

using common::ErrorCode;
using common::ExitCode;
using Format = common::DataConfig::Format;

Format format_of(const std::string& name) {
  if (name == "text") return Format::kText;
  if (name == "jsonl") return Format::kJsonl;
  return name == "tokens" ? Format::kTokens : Format::kAuto;
}

template <typename T>
T input_or_raise(common::Result<T> result) {
  const bool invalid = !result && (result.error().code == ErrorCode::kInvalidArgument ||
                                   result.error().code == ErrorCode::kDataLoss);
  return value_or_raise(std::move(result),
                        invalid ? ExitCode::kInvalidData : ExitCode::kInputNotFound);
}

std::unique_ptr<Tokenizer> open_tokenizer(const std::string& path) {
  if (path.empty()) return std::make_unique<ByteTokenizer>();
  common::Result<HfTextTokenizer> opened = HfTextTokenizer::open(path);
  const bool absent = !opened && opened.error().code == ErrorCode::kNotFound;
  return std::make_unique<HfTextTokenizer>(value_or_raise(
      std::move(opened), absent ? ExitCode::kInputNotFound : ExitCode::kInvalidConfig));
}

std::string summary(const TokenizeVerbOptions& options, const Tokenization& work,
                    const DataFiles& data) {
  const TokenFileHeader& header = work.header();
  return options.output + ": " + std::to_string(header.num_documents) + " documents, " +
         std::to_string(header.num_tokens) + " tokens of " + std::to_string(header.token_bytes) +
         " bytes from " + std::to_string(data.paths.files.size()) + " files (skipped: " +
         std::to_string(work.counts().empty_documents + data.paths.num_empty_skipped) + " empty, " +
         std::to_string(data.paths.num_binary_skipped) + " binary, " +
         std::to_string(data.paths.num_hidden_skipped) + " hidden)";
}

}  // namespace

std::string tokenize(const TokenizeVerbOptions& options) {
  if (!options.output.ends_with(kTokenFileExtension)) {
    throw RunError({ExitCode::kInvalidConfig,
                    "the output " + options.output + " must end with .tokens",
                    "format auto knows token files by that"});
  }
  std::error_code error;
  if (!options.overwrite && std::filesystem::exists(options.output, error)) {
    throw RunError({ExitCode::kOutputFinished, options.output + " exists",
                    "choose another output, or --overwrite to replace it"});
  }
  const DataFiles data = input_or_raise(find_data(options.input, format_of(options.format)));
  if (data.kind == SourceKind::kTokenFiles) {
    throw RunError({ExitCode::kInvalidData, options.input + " holds token files already",
                    "train on them as they are, with train.data.format: tokens"});
  }
  const std::unique_ptr<Disk> disk = real_disk();
  const std::unique_ptr<Tokenizer> tokenizer = open_tokenizer(options.tokenizer);
  Tokenization work(
      *disk, options.output,
      {.files = data.paths.files, .kind = data.kind, .text_column = options.text_column},
      *tokenizer);
  for (bool done = false; !done;) {
    common::Result<bool> advanced = work.advance(std::chrono::hours(1));
    const bool invalid = !advanced && advanced.error().code == ErrorCode::kInvalidArgument;
    done = value_or_raise(std::move(advanced),
                          invalid ? ExitCode::kInvalidData : ExitCode::kOutputUnwritable);
  }
  return summary(options, work, data);
}

}  // namespace lockstep::runtime

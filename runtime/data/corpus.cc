#include "runtime/data/corpus.h"

#include <algorithm>
#include <cassert>
#include <cstddef>
#include <cstdio>
#include <filesystem>
#include <utility>

#include "runtime/data/file_fingerprint.h"

namespace lockstep::runtime {
namespace {

namespace fs = std::filesystem;
using common::Error;
using common::ErrorCode;
using common::Result;

constexpr std::size_t kMaxFiles = 50000;

}  // namespace

Result<Corpus> Corpus::open(const std::vector<std::string>& files) {
  if (files.empty()) return Error{ErrorCode::kInvalidArgument, "empty corpus: no files", ""};
  if (files.size() > kMaxFiles) {
    return Error{ErrorCode::kInvalidArgument,
                 "the corpus has " + std::to_string(files.size()) + " files, at most " +
                     std::to_string(kMaxFiles) + " can be mapped",
                 "join small files into larger ones"};
  }
  const fs::path folder = common_folder(files);
  Corpus corpus;
  FileFingerprint fingerprint;
  for (const std::string& path : files) {
    ASSIGN_OR_RETURN(common::MappedFile file, common::MappedFile::open(path));
    const std::span<const std::byte> bytes = file.bytes();
    if (bytes.empty()) continue;
    fingerprint.add_file(fs::path(path).lexically_relative(folder), bytes);
    const int64_t separator = corpus.parts_.empty() ? 0 : 1;
    const int64_t begin_token = corpus.num_tokens_ + separator;
    corpus.num_tokens_ = begin_token + static_cast<int64_t>(bytes.size());
    corpus.parts_.push_back(Part{std::move(file), begin_token});
  }
  if (corpus.parts_.empty()) {
    return Error{ErrorCode::kInvalidArgument, "empty corpus: every file is empty", ""};
  }
  char text[80];
  std::snprintf(text, sizeof text, "v1:%zu:%lld:%016llx", corpus.parts_.size(),
                static_cast<long long>(corpus.num_tokens_),
                static_cast<unsigned long long>(fingerprint.hash()));
  corpus.fingerprint_ = text;
  return corpus;
}

int64_t Corpus::document_begin(int64_t document) const {
  if (document == 0) return 0;
  if (document == num_documents()) return num_tokens_;
  return parts_[static_cast<std::size_t>(document)].begin_token - 1;  // its separator
}

Result<void> Corpus::read(int64_t begin, std::span<int32_t> tokens,
                          std::span<int32_t> labels) const {
  if (tokens.empty()) return {};
  read_tokens(begin, tokens);
  std::copy(tokens.begin() + 1, tokens.end(), labels.begin());
  const int64_t next = begin + static_cast<int64_t>(tokens.size());
  labels.back() = 0;  // what follows the last file, as any other, is the separator
  if (next < num_tokens_) read_tokens(next, labels.last(1));
  return {};
}

void Corpus::read_tokens(int64_t begin, std::span<int32_t> tokens) const {
  assert(begin >= 0 && begin + static_cast<int64_t>(tokens.size()) <= num_tokens_);
  auto part = std::upper_bound(parts_.begin(), parts_.end(), begin,
                               [](int64_t at, const Part& p) { return at < p.begin_token; });
  --part;  // the first part begins at 0, so there is one before
  while (!tokens.empty()) {
    const std::span<const std::byte> bytes = part->file.bytes();
    const auto skip = static_cast<std::size_t>(begin - part->begin_token);
    const std::size_t count = std::min(tokens.size(), bytes.size() - skip);
    std::transform(bytes.begin() + static_cast<std::ptrdiff_t>(skip),
                   bytes.begin() + static_cast<std::ptrdiff_t>(skip + count), tokens.begin(),
                   [](std::byte byte) { return std::to_integer<int32_t>(byte); });
    tokens = tokens.subspan(count);
    if (tokens.empty()) return;
    tokens.front() = 0;  // the separator before the next part
    tokens = tokens.subspan(1);
    ++part;
    begin = part == parts_.end() ? begin : part->begin_token;
  }
}

}  // namespace lockstep::runtime

#include "runtime/data/token_file.h"

#include <algorithm>
#include <array>
#include <cassert>
#include <cstdio>
#include <cstring>
#include <utility>

#include "runtime/checkpoint/crc32c.h"

namespace lockstep::runtime {
namespace {

using common::Error;
using common::ErrorCode;
using common::Result;

template <typename T>
T load(const std::byte* at) {
  T value;
  std::memcpy(&value, at, sizeof value);
  return value;
}

Error damaged(const std::string& path, const std::string& what) {
  return {ErrorCode::kDataLoss, path + ": " + what, "make the file again, or copy it again"};
}

}  // namespace

Result<TokenFile> TokenFile::open(const std::string& path) {
  ASSIGN_OR_RETURN(common::MappedFile mapped, common::MappedFile::open(path));
  ASSIGN_OR_RETURN(TokenFileHeader header, decode_token_file_header(mapped.bytes(), path));
  TokenFile file(path, std::move(mapped), std::move(header));
  const auto checksums = file.file_.bytes().last(
      static_cast<std::size_t>(file.header_.file_bytes() - file.header_.documents_end()));
  if (crc32c(checksums) != file.header_.checksums_crc) {
    return damaged(path, "the checksum of its checksums differs");
  }
  RETURN_IF_ERROR(file.check_documents());
  return file;
}

TokenFile::TokenFile(std::string path, common::MappedFile file, TokenFileHeader header)
    : path_(std::move(path)),
      file_(std::move(file)),
      header_(std::move(header)),
      checked_(new std::atomic<bool>[static_cast<std::size_t>(header_.num_blocks())]()) {}

Result<void> TokenFile::check_documents() const {
  RETURN_IF_ERROR(check_blocks(header_.documents_begin(), header_.documents_end()));
  bool ascending = document_begin(0) == 0;
  for (int64_t document = 0; ascending && document < header_.num_documents; ++document) {
    ascending = document_begin(document) < document_begin(document + 1);
  }
  if (ascending && document_begin(header_.num_documents) == header_.num_tokens) return {};
  return damaged(path_, "its documents do not fill it");
}

Result<void> TokenFile::check_blocks(int64_t begin, int64_t end) const {
  const int64_t first = (begin - kTokenFileHeaderBytes) / kTokenFileBlockBytes;
  const int64_t last = (end - 1 - kTokenFileHeaderBytes) / kTokenFileBlockBytes;
  for (int64_t block = first; block <= last; ++block) {
    std::atomic<bool>& checked = checked_[static_cast<std::size_t>(block)];
    if (checked.load(std::memory_order_relaxed)) continue;
    const int64_t offset = kTokenFileHeaderBytes + block * kTokenFileBlockBytes;
    const int64_t size = std::min(kTokenFileBlockBytes, header_.documents_end() - offset);
    const std::span<const std::byte> bytes(at(offset), static_cast<std::size_t>(size));
    if (crc32c(bytes) != load<uint32_t>(at(header_.documents_end() + block * 4))) {
      return damaged(path_, "the checksum of bytes " + std::to_string(offset) + " to " +
                                std::to_string(offset + size) + " differs");
    }
    checked.store(true, std::memory_order_relaxed);
  }
  return {};
}

int64_t TokenFile::document_begin(int64_t document) const {
  return static_cast<int64_t>(load<uint64_t>(at(header_.documents_begin() + document * 8)));
}

// The number of the first document that begins after `position`; it ends the one of `position`.
int64_t TokenFile::first_document_end_after(int64_t position) const {
  int64_t before = 0;
  int64_t after = header_.num_documents;
  while (after - before > 1) {
    const int64_t middle = before + (after - before) / 2;
    (document_begin(middle) <= position ? before : after) = middle;
  }
  return after;
}

int32_t TokenFile::token(int64_t position) const {
  const std::byte* const place = at(header_.tokens_begin() + position * header_.token_bytes);
  switch (header_.token_bytes) {
    case 1:
      return load<uint8_t>(place);
    case 2:
      return load<uint16_t>(place);
    default:
      return load<int32_t>(place);
  }
}

int32_t TokenFile::stored_label(int64_t position) const {
  return header_.has_labels ? load<int32_t>(at(header_.labels_begin() + position * 4))
                            : token(position);
}

Result<void> TokenFile::read(int64_t begin, std::span<int32_t> tokens,
                             std::span<int32_t> labels) const {
  const int64_t end = begin + static_cast<int64_t>(tokens.size());
  assert(begin >= 0 && end <= header_.num_tokens && labels.size() == tokens.size());
  const int64_t last = std::min(end + 1, header_.num_tokens);  // the last label's token
  RETURN_IF_ERROR(check_blocks(header_.tokens_begin() + begin * header_.token_bytes,
                               header_.tokens_begin() + last * header_.token_bytes));
  if (header_.has_labels) {
    RETURN_IF_ERROR(
        check_blocks(header_.labels_begin() + begin * 4, header_.labels_begin() + last * 4));
  }
  for (int64_t i = begin; i < end; ++i) {
    tokens[static_cast<std::size_t>(i - begin)] = token(i);
    labels[static_cast<std::size_t>(i - begin)] = i + 1 < last ? stored_label(i + 1) : kNoLabel;
  }
  for (int64_t document = first_document_end_after(begin); document <= header_.num_documents;
       ++document) {
    const int64_t past = document_begin(document);
    if (past > end) break;
    labels[static_cast<std::size_t>(past - 1 - begin)] = static_cast<int32_t>(header_.separator);
  }
  return {};
}

Result<int64_t> TokenFile::count_labels(int64_t begin, int64_t end) const {
  if (begin >= end) return int64_t{0};
  if (header_.has_labels) {
    std::vector<int32_t> tokens(static_cast<std::size_t>(end - begin));
    std::vector<int32_t> labels(tokens.size());
    RETURN_IF_ERROR(read(begin, tokens, labels));
    return static_cast<int64_t>(
        std::count_if(labels.begin(), labels.end(), [](int32_t label) { return label >= 0; }));
  }
  if (header_.separator >= 0) return end - begin;
  // Only the last token of a document predicts nothing: those whose document ends in (begin, end].
  const int64_t ends = first_document_end_after(end - 1) - first_document_end_after(begin) +
                       (document_begin(first_document_end_after(end - 1)) == end ? 1 : 0);
  return end - begin - ends;
}

Result<TokenFiles> TokenFiles::open(const std::vector<std::string>& paths) {
  if (paths.empty()) return Error{ErrorCode::kInvalidArgument, "empty corpus: no files", ""};
  TokenFiles all;
  uint32_t crc = 0;
  for (const std::string& path : paths) {
    ASSIGN_OR_RETURN(TokenFile file, TokenFile::open(path));
    const TokenFileHeader& header = file.header();
    if (!all.files_.empty() && all.files_.front().header().separator != header.separator) {
      return Error{ErrorCode::kInvalidArgument,
                   path + " has another separator than " + all.files_.front().path(),
                   "train on token files of one kind"};
    }
    all.begins_.push_back(all.begins_.back() + header.num_tokens);
    all.document_begins_.push_back(all.document_begins_.back() + header.num_documents);
    all.num_token_ids_ = std::max(all.num_token_ids_, header.num_token_ids);
    crc = crc32c(std::as_bytes(std::span(&header.checksums_crc, 1)), crc);
    all.files_.push_back(std::move(file));
  }
  std::array<char, 80> text{};
  std::snprintf(text.data(), text.size(), "tokens1:%lld:%lld:%08x",
                static_cast<long long>(all.num_documents()),
                static_cast<long long>(all.num_tokens()), crc);
  all.fingerprint_ = text.data();
  return all;
}

std::size_t TokenFiles::file_with(int64_t position, const std::vector<int64_t>& begins) const {
  const auto after = std::upper_bound(begins.begin(), begins.end() - 1, position);
  return static_cast<std::size_t>(after - begins.begin()) - 1;
}

int64_t TokenFiles::document_begin(int64_t document) const {
  if (document == num_documents()) return num_tokens();
  const std::size_t file = file_with(document, document_begins_);
  return begins_[file] + files_[file].document_begin(document - document_begins_[file]);
}

Result<void> TokenFiles::read(int64_t begin, std::span<int32_t> tokens,
                              std::span<int32_t> labels) const {
  for (std::size_t file = file_with(begin, begins_); !tokens.empty(); ++file) {
    const auto rest = static_cast<std::size_t>(begins_[file + 1] - begin);
    const std::size_t count = std::min(tokens.size(), rest);
    RETURN_IF_ERROR(
        files_[file].read(begin - begins_[file], tokens.first(count), labels.first(count)));
    tokens = tokens.subspan(count);
    labels = labels.subspan(count);
    begin += static_cast<int64_t>(count);
  }
  return {};
}

Result<int64_t> TokenFiles::count_labels(int64_t begin, int64_t end) const {
  int64_t count = 0;
  for (std::size_t file = file_with(begin, begins_); begin < end; ++file) {
    const int64_t stop = std::min(end, begins_[file + 1]);
    ASSIGN_OR_RETURN(const int64_t in_file,
                     files_[file].count_labels(begin - begins_[file], stop - begins_[file]));
    count += in_file;
    begin = stop;
  }
  return count;
}

}  // namespace lockstep::runtime

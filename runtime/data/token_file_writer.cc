#include "runtime/data/token_file_writer.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <utility>

#include "runtime/checkpoint/crc32c.h"

namespace lockstep::runtime {
namespace {

using common::Error;
using common::ErrorCode;
using common::Result;

constexpr std::size_t kBufferBytes = 1024 * 1024;

// A file that grows at its end, in pieces of kBufferBytes.
class Appender {
 public:
  Appender(Disk& disk, std::unique_ptr<DiskFile> file, int64_t begin)
      : disk_(disk), file_(std::move(file)), offset_(begin) {}

  Result<void> append(std::span<const std::byte> bytes) {
    buffer_.insert(buffer_.end(), bytes.begin(), bytes.end());
    return buffer_.size() < kBufferBytes ? Result<void>() : flush();
  }
  Result<void> flush() {
    RETURN_IF_ERROR(disk_.write_at(*file_, offset_, buffer_));
    offset_ += static_cast<int64_t>(buffer_.size());
    buffer_.clear();
    return {};
  }
  int64_t end() const { return offset_ + static_cast<int64_t>(buffer_.size()); }
  DiskFile& file() { return *file_; }

 private:
  Disk& disk_;
  std::unique_ptr<DiskFile> file_;
  int64_t offset_;
  std::vector<std::byte> buffer_;
};

// The CRC-32C of every kTokenFileBlockBytes of what goes by.
class BlockChecksums {
 public:
  void add(std::span<const std::byte> bytes) {
    while (!bytes.empty()) {
      const std::size_t count =
          std::min(bytes.size(), static_cast<std::size_t>(kTokenFileBlockBytes) - filled_);
      crc_ = crc32c(bytes.first(count), crc_);
      filled_ += count;
      bytes = bytes.subspan(count);
      if (filled_ == static_cast<std::size_t>(kTokenFileBlockBytes)) end_block();
    }
  }
  const std::vector<uint32_t>& finish() {
    if (filled_ > 0) end_block();
    return checksums_;
  }

 private:
  void end_block() {
    checksums_.push_back(crc_);
    crc_ = 0;
    filled_ = 0;
  }

  std::vector<uint32_t> checksums_;
  uint32_t crc_ = 0;
  std::size_t filled_ = 0;
};

template <typename T>
std::span<const std::byte> bytes_of(const T& value) {
  return std::as_bytes(std::span(&value, 1));
}

}  // namespace

struct TokenFileWriter::State {
  Disk& disk;
  std::string path;
  std::string folder;
  std::string partial, labels_path, documents_path;  // temporary
  TokenFileHeader header;
  std::unique_ptr<Appender> body, labels, documents;
  BlockChecksums checksums;
  int64_t document_begin = 0;

  State(Disk& to, const std::string& file, const TokenFileOptions& options) : disk(to), path(file) {
    const std::filesystem::path target(file);
    folder = target.has_parent_path() ? target.parent_path().string() : ".";
    const std::string hidden = folder + "/." + target.filename().string();
    partial = hidden + ".partial";
    labels_path = hidden + ".labels";
    documents_path = hidden + ".documents";
    header.token_bytes = options.token_bytes;
    header.num_token_ids = options.separator + 1;
    header.separator = options.separator;
    header.has_labels = options.has_labels;
    header.tokenizer = options.tokenizer;
  }

  Result<std::unique_ptr<Appender>> open(const std::string& name, int64_t begin) const {
    ASSIGN_OR_RETURN(std::unique_ptr<DiskFile> file, disk.open(name, OpenMode::kCreate));
    return std::make_unique<Appender>(disk, std::move(file), begin);
  }
  Result<void> append(std::span<const std::byte> bytes) {
    checksums.add(bytes);
    return body->append(bytes);
  }
  Result<void> align() {
    constexpr std::array<std::byte, 8> kZeros{};
    const auto past = static_cast<std::size_t>(body->end() % 8);
    return append(std::span(kZeros).first((8 - past) % 8));
  }
  // Moves a section that was written beside the file to its end.
  Result<void> append_section(Appender& section, const std::string& name) {
    RETURN_IF_ERROR(section.flush());
    RETURN_IF_ERROR(align());
    std::ifstream in(name, std::ios::binary);
    std::vector<char> buffer(kBufferBytes);
    for (int64_t rest = section.end(); rest > 0;) {
      const int64_t count = std::min(rest, static_cast<int64_t>(buffer.size()));
      if (!in.read(buffer.data(), count)) {
        return Error{ErrorCode::kInternal, "cannot read " + name, "another process writes to it"};
      }
      RETURN_IF_ERROR(append(
          std::as_bytes(std::span(std::as_const(buffer)).first(static_cast<std::size_t>(count)))));
      rest -= count;
    }
    return {};
  }
};

TokenFileWriter::TokenFileWriter(std::unique_ptr<State> state) : state_(std::move(state)) {}
TokenFileWriter::TokenFileWriter(TokenFileWriter&&) noexcept = default;

TokenFileWriter::~TokenFileWriter() {
  if (!state_) return;
  try {
    for (const std::string& name : {state_->partial, state_->labels_path, state_->documents_path}) {
      // What stays where the disk is gone is replaced by the next writer of this path.
      if (!state_->disk.remove_tree(name)) return;
    }
  } catch (...) {  // a destructor must not throw
  }
}

Result<TokenFileWriter> TokenFileWriter::create(Disk& disk, const std::string& path,
                                                const TokenFileOptions& options) {
  auto state = std::make_unique<State>(disk, path, options);
  RETURN_IF_ERROR(disk.make_folder(state->folder));
  TokenFileWriter writer(std::move(state));
  State& s = *writer.state_;
  ASSIGN_OR_RETURN(s.body, s.open(s.partial, kTokenFileHeaderBytes));
  ASSIGN_OR_RETURN(s.documents, s.open(s.documents_path, 0));
  if (options.has_labels) {
    ASSIGN_OR_RETURN(s.labels, s.open(s.labels_path, 0));
  }
  return writer;
}

Result<void> TokenFileWriter::add_tokens(std::span<const int32_t> tokens,
                                         std::span<const int32_t> labels) {
  State& s = *state_;
  const auto width = static_cast<std::size_t>(s.header.token_bytes);
  std::vector<std::byte> packed(tokens.size() * width);
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    const bool fits = tokens[i] >= 0 && (width == 4 || tokens[i] < (1 << (8 * width)));
    if (!fits) {
      return Error{ErrorCode::kInvalidArgument,
                   "token " + std::to_string(tokens[i]) + " does not fit in " +
                       std::to_string(width) + " bytes",
                   ""};
    }
    std::memcpy(packed.data() + i * width, &tokens[i], width);  // little-endian: the low bytes
    s.header.num_token_ids = std::max(s.header.num_token_ids, int64_t{tokens[i]} + 1);
  }
  for (const int32_t label : labels) {
    s.header.num_token_ids = std::max(s.header.num_token_ids, int64_t{label} + 1);
  }
  s.header.num_tokens += static_cast<int64_t>(tokens.size());
  if (s.header.has_labels) RETURN_IF_ERROR(s.labels->append(std::as_bytes(labels)));
  return s.append(packed);
}

Result<void> TokenFileWriter::end_document() {
  State& s = *state_;
  if (s.header.num_tokens == s.document_begin) return {};
  RETURN_IF_ERROR(s.documents->append(bytes_of(static_cast<uint64_t>(s.document_begin))));
  s.document_begin = s.header.num_tokens;
  ++s.header.num_documents;
  return {};
}

Result<TokenFileHeader> TokenFileWriter::finish() {
  State& s = *state_;
  if (s.header.num_documents == 0) {
    return Error{ErrorCode::kInvalidArgument, "empty corpus: there is no document with a token",
                 ""};
  }
  RETURN_IF_ERROR(s.documents->append(bytes_of(static_cast<uint64_t>(s.header.num_tokens))));
  if (s.header.has_labels) RETURN_IF_ERROR(s.append_section(*s.labels, s.labels_path));
  RETURN_IF_ERROR(s.append_section(*s.documents, s.documents_path));
  const std::vector<uint32_t>& checksums = s.checksums.finish();
  s.header.checksums_crc = crc32c(std::as_bytes(std::span(checksums)));
  RETURN_IF_ERROR(s.body->append(std::as_bytes(std::span(checksums))));
  RETURN_IF_ERROR(s.body->flush());
  const std::string header = encode_token_file_header(s.header);
  RETURN_IF_ERROR(s.disk.write_at(s.body->file(), 0, std::as_bytes(std::span(header))));
  RETURN_IF_ERROR(s.disk.sync_file(s.body->file()));
  RETURN_IF_ERROR(s.disk.rename(s.partial, s.path));
  RETURN_IF_ERROR(s.disk.sync_folder(s.folder));
  return s.header;
}

}  // namespace lockstep::runtime

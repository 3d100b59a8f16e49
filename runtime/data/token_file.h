// Token files, mapped: opening reads the documents' places, training reads what it trains on.
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "runtime/common/mapped_file.h"
#include "runtime/common/result.h"
#include "runtime/data/token_file_format.h"
#include "runtime/data/token_source.h"

namespace lockstep::runtime {

// One file; see Note [The token file]. Reading is const and may be done from several threads.
class TokenFile {
 public:
  // Errors: as decode_token_file_header(); kDataLoss if checksums or documents are damaged; those
  // of the system.
  static common::Result<TokenFile> open(const std::string& path);

  const TokenFileHeader& header() const { return header_; }
  const std::string& path() const { return path_; }
  int64_t document_begin(int64_t document) const;

  // As TokenSource's.
  common::Result<void> read(int64_t begin, std::span<int32_t> tokens,
                            std::span<int32_t> labels) const;
  common::Result<int64_t> count_labels(int64_t begin, int64_t end) const;

 private:
  TokenFile(std::string path, common::MappedFile file, TokenFileHeader header);

  common::Result<void> check_documents() const;
  // Checks the blocks that hold bytes [begin, end) of the file, each once.
  common::Result<void> check_blocks(int64_t begin, int64_t end) const;
  int64_t first_document_end_after(int64_t position) const;
  int32_t token(int64_t position) const;
  int32_t stored_label(int64_t position) const;
  const std::byte* at(int64_t offset) const { return file_.bytes().data() + offset; }

  std::string path_;
  common::MappedFile file_;
  TokenFileHeader header_;
  std::unique_ptr<std::atomic<bool>[]> checked_;  // per block
};

// Token files one after another.
class TokenFiles final : public TokenSource {
 public:
  // Errors: those of TokenFile::open(); kInvalidArgument if the files have different separators.
  static common::Result<TokenFiles> open(const std::vector<std::string>& paths);

  int64_t num_tokens() const override { return begins_.back(); }
  int64_t num_documents() const override { return document_begins_.back(); }
  int64_t num_token_ids() const override { return num_token_ids_; }
  int64_t document_begin(int64_t document) const override;
  common::Result<void> read(int64_t begin, std::span<int32_t> tokens,
                            std::span<int32_t> labels) const override;
  common::Result<int64_t> count_labels(int64_t begin, int64_t end) const override;
  // Of the checksums of all files in their order: of every byte.
  const std::string& fingerprint() const override { return fingerprint_; }

 private:
  TokenFiles() = default;
  std::size_t file_with(int64_t position, const std::vector<int64_t>& begins) const;

  std::vector<TokenFile> files_;
  std::vector<int64_t> begins_ = {0};           // of each file's tokens, then the end
  std::vector<int64_t> document_begins_ = {0};  // the same in documents
  int64_t num_token_ids_ = 0;
  std::string fingerprint_;
};

}  // namespace lockstep::runtime

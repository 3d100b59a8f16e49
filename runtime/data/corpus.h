// Text files as a stream of byte tokens, memory-mapped: a byte is a token, so opening costs no
// reading and there is nothing to index.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "runtime/common/mapped_file.h"
#include "runtime/common/result.h"
#include "runtime/data/token_source.h"

namespace lockstep::runtime {

// The stream is file 0, a byte 0, file 1, a byte 0, ..., last file. A file is a document, the byte
// 0 before it its separator, see Note [Documents and separators].
class Corpus final : public TokenSource {
 public:
  // Maps `files` (as from expand_paths) in their order. Errors name the file; kInvalidArgument if
  // there are more than 50000 files (a process may hold 65530 mappings) or none.
  static common::Result<Corpus> open(const std::vector<std::string>& files);

  int64_t num_tokens() const override { return num_tokens_; }
  int64_t num_documents() const override { return static_cast<int64_t>(parts_.size()); }
  int64_t num_token_ids() const override { return 256; }
  int64_t document_begin(int64_t document) const override;
  common::Result<void> read(int64_t begin, std::span<int32_t> tokens,
                            std::span<int32_t> labels) const override;
  common::Result<int64_t> count_labels(int64_t begin, int64_t end) const override {
    return end - begin;
  }

  // Number of files, tokens, and a hash of each file's
  // size, path relative to the files' common folder, and first and last 4 KiB. It is no checksum of
  // the whole: a change in the middle of a large file that keeps its size goes unseen.
  const std::string& fingerprint() const override { return fingerprint_; }

 private:
  struct Part {
    common::MappedFile file;
    int64_t begin_token = 0;  // of the file's first byte in the stream
  };
  Corpus() = default;
  void read_tokens(int64_t begin, std::span<int32_t> tokens) const;

  std::vector<Part> parts_;  // ascending begin_token; no empty file
  int64_t num_tokens_ = 0;
  std::string fingerprint_;
};

}  // namespace lockstep::runtime

// Text files as one continuous stream of byte tokens, memory-mapped: opening costs no reading.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "runtime/common/mapped_file.h"
#include "runtime/common/result.h"

namespace lockstep::runtime {

// The stream is file 0, a byte 0, file 1, a byte 0, ..., last file. Reading is const and may be
// done from several threads.
class Corpus {
 public:
  // Maps `files` (as from expand_paths) in their order. Errors name the file; kInvalidArgument if
  // there are more than 50000 files (a process may hold 65530 mappings) or none.
  static common::Result<Corpus> open(const std::vector<std::string>& files);

  int64_t num_tokens() const { return num_tokens_; }
  int64_t num_files() const { return static_cast<int64_t>(parts_.size()); }

  // Writes stream tokens [begin, begin + tokens.size()) to `tokens`. The range must lie in the
  // stream.
  void read(int64_t begin, std::span<int32_t> tokens) const;

  // Identifies the data, wherever it is mounted: number of files, tokens, and a hash of each file's
  // size, path relative to the files' common folder, and first and last 4 KiB. It is no checksum of
  // the whole: a change in the middle of a large file that keeps its size goes unseen.
  const std::string& fingerprint() const { return fingerprint_; }

 private:
  struct Part {
    common::MappedFile file;
    int64_t begin_token = 0;  // of the file's first byte in the stream
  };
  Corpus() = default;

  std::vector<Part> parts_;  // ascending begin_token; no empty file
  int64_t num_tokens_ = 0;
  std::string fingerprint_;
};

}  // namespace lockstep::runtime

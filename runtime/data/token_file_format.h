// The layout of a token file. All numbers are little-endian.
//
// Note [The token file]
//   header     4096 bytes, as TokenFileHeader, its CRC-32C in the last four
//   tokens     num_tokens ids of token_bytes bytes each
//   labels     only with has_labels: num_tokens int32, what stands at a place as a label (not yet
//              shifted by one); kNoLabel = ignored
//   documents  num_documents + 1 uint64: where each begins in tokens, then num_tokens
//   checksums  one uint32 per 64 KiB from the end of the header to the end of documents: CRC-32C
// Sections begin at multiples of 8, filled up with zeros. The file ends with the last checksum. A
// file is written under a temporary name, synced and renamed, so a torn one never has its name; a
// reader checks all sizes against the header, the documents at once, and tokens when first read.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "runtime/common/result.h"

namespace lockstep::runtime {

inline constexpr std::string_view kTokenFileMagic = "LOCKTOK\n";
inline constexpr std::string_view kTokenFileExtension = ".tokens";
inline constexpr int64_t kTokenFileHeaderBytes = 4096;
inline constexpr int64_t kTokenFileBlockBytes = 64 * 1024;

struct TokenFileHeader {
  int64_t token_bytes = 2;  // 1, 2 or 4
  int64_t num_tokens = 0;
  int64_t num_documents = 0;
  int64_t num_token_ids = 0;  // the largest id or label, plus 1
  int64_t separator = -1;     // see Note [Documents and separators]; -1 = none
  bool has_labels = false;
  uint32_t checksums_crc = 0;  // CRC-32C of the checksums, so of all that is behind the header
  std::string tokenizer;       // at most 40 bytes; empty for tokens that a user made

  int64_t tokens_begin() const { return kTokenFileHeaderBytes; }
  int64_t labels_begin() const { return aligned(tokens_begin() + num_tokens * token_bytes); }
  int64_t documents_begin() const {
    return aligned(labels_begin() + (has_labels ? num_tokens * 4 : 0));
  }
  int64_t documents_end() const { return documents_begin() + (num_documents + 1) * 8; }
  int64_t num_blocks() const {
    return (documents_end() - kTokenFileHeaderBytes + kTokenFileBlockBytes - 1) /
           kTokenFileBlockBytes;
  }
  int64_t file_bytes() const { return documents_end() + num_blocks() * 4; }

 private:
  static int64_t aligned(int64_t offset) { return (offset + 7) / 8 * 8; }
};

// The header as it stands in the file, kTokenFileHeaderBytes long.
std::string encode_token_file_header(const TokenFileHeader& header);

// The header of the file `path`, of which `bytes` is all. Errors, naming the path: kInvalidArgument
// for what is no token file or of another version, kDataLoss for one that is damaged or cut.
common::Result<TokenFileHeader> decode_token_file_header(std::span<const std::byte> bytes,
                                                         const std::string& path);

// The narrowest width that holds `num_token_ids` ids.
int64_t token_bytes_for(int64_t num_token_ids);

}  // namespace lockstep::runtime

#include "runtime/data/token_file_format.h"

#include <bit>
#include <cstring>

#include "runtime/checkpoint/crc32c.h"

namespace lockstep::runtime {
namespace {

using common::Error;
using common::ErrorCode;
using common::Result;

static_assert(std::endian::native == std::endian::little, "token files are read as they lie");

constexpr uint32_t kVersion = 1;
constexpr std::size_t kHeaderBytes = kTokenFileHeaderBytes;
constexpr std::size_t kCrcAt = kHeaderBytes - 4;
constexpr std::size_t kMaxTokenizerBytes = 40;
constexpr int64_t kMaxTokens = int64_t{1} << 56;  // sizes in bytes stay within int64

// Where a field of the header lies, and its type.
constexpr std::size_t kVersionAt = 8;
constexpr std::size_t kTokenBytesAt = 12;
constexpr std::size_t kNumTokensAt = 16;
constexpr std::size_t kNumDocumentsAt = 24;
constexpr std::size_t kNumTokenIdsAt = 32;
constexpr std::size_t kSeparatorAt = 40;
constexpr std::size_t kHasLabelsAt = 48;
constexpr std::size_t kChecksumsCrcAt = 52;
constexpr std::size_t kTokenizerAt = 56;

template <typename T>
void put(std::string& bytes, std::size_t at, T value) {
  std::memcpy(bytes.data() + at, &value, sizeof value);
}

template <typename T>
T take(std::span<const std::byte> bytes, std::size_t at) {
  T value;
  std::memcpy(&value, bytes.data() + at, sizeof value);
  return value;
}

bool is_plausible(const TokenFileHeader& header) {
  const bool width = header.token_bytes == 1 || header.token_bytes == 2 || header.token_bytes == 4;
  return width && header.num_tokens > 0 && header.num_tokens < kMaxTokens &&
         header.num_documents > 0 && header.num_documents <= header.num_tokens &&
         header.num_token_ids > 0 && header.separator >= -1 &&
         header.separator < header.num_token_ids;
}

}  // namespace

std::string encode_token_file_header(const TokenFileHeader& header) {
  std::string bytes(kHeaderBytes, '\0');
  kTokenFileMagic.copy(bytes.data(), kTokenFileMagic.size());
  put(bytes, kVersionAt, kVersion);
  put(bytes, kTokenBytesAt, static_cast<uint32_t>(header.token_bytes));
  put(bytes, kNumTokensAt, header.num_tokens);
  put(bytes, kNumDocumentsAt, header.num_documents);
  put(bytes, kNumTokenIdsAt, header.num_token_ids);
  put(bytes, kSeparatorAt, header.separator);
  put(bytes, kHasLabelsAt, static_cast<uint32_t>(header.has_labels));
  put(bytes, kChecksumsCrcAt, header.checksums_crc);
  header.tokenizer.copy(bytes.data() + kTokenizerAt, kMaxTokenizerBytes);
  put(bytes, kCrcAt, crc32c(std::as_bytes(std::span(bytes)).first(kCrcAt)));
  return bytes;
}

Result<TokenFileHeader> decode_token_file_header(std::span<const std::byte> bytes,
                                                 const std::string& path) {
  const bool has_magic =
      bytes.size() >= kTokenFileMagic.size() &&
      std::memcmp(bytes.data(), kTokenFileMagic.data(), kTokenFileMagic.size()) == 0;
  if (!has_magic) {
    return Error{ErrorCode::kInvalidArgument, path + " is no token file of Lockstep",
                 "make one from text or JSON lines with `lockstep tokenize`"};
  }
  const auto damaged = [&path](const std::string& what) {
    return Error{ErrorCode::kDataLoss, path + ": " + what, "make the file again, or copy it again"};
  };
  if (bytes.size() < kHeaderBytes) return damaged("the header is cut");
  if (const auto version = take<uint32_t>(bytes, kVersionAt); version != kVersion) {
    return Error{ErrorCode::kInvalidArgument,
                 path + " has format version " + std::to_string(version) + ", not " +
                     std::to_string(kVersion),
                 "use the version of the program that wrote it, or make the file again"};
  }
  if (take<uint32_t>(bytes, kCrcAt) != crc32c(bytes.first(kCrcAt))) {
    return damaged("the checksum of the header differs");
  }
  const char* const tokenizer = reinterpret_cast<const char*>(bytes.data()) + kTokenizerAt;
  const TokenFileHeader header{.token_bytes = take<uint32_t>(bytes, kTokenBytesAt),
                               .num_tokens = take<int64_t>(bytes, kNumTokensAt),
                               .num_documents = take<int64_t>(bytes, kNumDocumentsAt),
                               .num_token_ids = take<int64_t>(bytes, kNumTokenIdsAt),
                               .separator = take<int64_t>(bytes, kSeparatorAt),
                               .has_labels = take<uint32_t>(bytes, kHasLabelsAt) != 0,
                               .checksums_crc = take<uint32_t>(bytes, kChecksumsCrcAt),
                               .tokenizer = {tokenizer, strnlen(tokenizer, kMaxTokenizerBytes)}};
  if (!is_plausible(header)) return damaged("the header holds impossible sizes");
  if (static_cast<int64_t>(bytes.size()) != header.file_bytes()) {
    return damaged("the file has " + std::to_string(bytes.size()) + " bytes, its header says " +
                   std::to_string(header.file_bytes()));
  }
  return header;
}

int64_t token_bytes_for(int64_t num_token_ids) {
  return num_token_ids <= (1 << 8) ? 1 : num_token_ids <= (1 << 16) ? 2 : 4;
}

}  // namespace lockstep::runtime

#include "runtime/data/byte_tokenizer.h"

#include <algorithm>
#include <cstddef>

namespace lockstep::runtime {
namespace {

constexpr std::string_view kReplacement = "\xEF\xBF\xBD";  // U+FFFD

struct Utf8Lead {
  std::size_t length = 0;  // of the whole sequence; 0: no sequence starts with this byte
  unsigned char min_second = 0x80;
  unsigned char max_second = 0xBF;
};

// Source: The Unicode Standard, table 3-7, "Well-Formed UTF-8 Byte Sequences".
Utf8Lead classify(unsigned char lead) {
  if (lead <= 0x7F) return {.length = 1};
  if (lead >= 0xC2 && lead <= 0xDF) return {.length = 2};
  if (lead == 0xE0) return {.length = 3, .min_second = 0xA0};
  if (lead == 0xED) return {.length = 3, .max_second = 0x9F};
  if (lead >= 0xE1 && lead <= 0xEF) return {.length = 3};
  if (lead == 0xF0) return {.length = 4, .min_second = 0x90};
  if (lead >= 0xF1 && lead <= 0xF3) return {.length = 4};
  if (lead == 0xF4) return {.length = 4, .max_second = 0x8F};
  return {};
}

// How many bytes from `begin` on belong together as a sequence or a prefix of one (at least 1).
std::size_t matching_bytes(std::string_view bytes, std::size_t begin, const Utf8Lead& lead) {
  std::size_t matched = 1;
  while (matched < lead.length && begin + matched < bytes.size()) {
    const auto byte = static_cast<unsigned char>(bytes[begin + matched]);
    const unsigned char low = matched == 1 ? lead.min_second : 0x80;
    const unsigned char high = matched == 1 ? lead.max_second : 0xBF;
    if (byte < low || byte > high) break;
    ++matched;
  }
  return matched;
}

}  // namespace

common::Result<void> ByteTokenizer::encode(
    std::string_view text, const std::function<void(std::span<const int32_t>)>& sink) const {
  constexpr std::size_t kPieceBytes = 64 * 1024;
  for (; !text.empty(); text.remove_prefix(std::min(text.size(), kPieceBytes))) {
    sink(encode_bytes(text.substr(0, kPieceBytes)));
  }
  return {};
}

std::vector<int32_t> encode_bytes(std::string_view text) {
  std::vector<int32_t> tokens;
  tokens.reserve(text.size());
  for (const char character : text) tokens.push_back(static_cast<unsigned char>(character));
  return tokens;
}

std::string decode_bytes(std::span<const int32_t> tokens) {
  constexpr char kNeverValid = '\xFF';
  std::string bytes;
  bytes.reserve(tokens.size());
  for (const int32_t token : tokens) {
    const bool is_byte = token >= 0 && token < kNumByteTokens;
    bytes.push_back(is_byte ? static_cast<char>(token) : kNeverValid);
  }
  return replace_invalid_utf8(bytes);
}

std::string replace_invalid_utf8(std::string_view bytes) {
  std::string valid;
  valid.reserve(bytes.size());
  for (std::size_t i = 0; i < bytes.size();) {
    const Utf8Lead lead = classify(static_cast<unsigned char>(bytes[i]));
    const std::size_t matched = matching_bytes(bytes, i, lead);
    valid += matched == lead.length ? bytes.substr(i, matched) : kReplacement;
    i += matched;
  }
  return valid;
}

}  // namespace lockstep::runtime

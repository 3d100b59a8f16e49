// The byte tokenizer: token = byte, 256 tokens, nothing to download.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/data/tokenizer.h"

namespace lockstep::runtime {

inline constexpr int64_t kNumByteTokens = 256;

class ByteTokenizer final : public Tokenizer {
 public:
  std::string name() const override { return "bytes"; }
  int64_t num_token_ids() const override { return kNumByteTokens; }
  int32_t separator() const override { return 0; }
  common::Result<void> encode(
      std::string_view text,
      const std::function<void(std::span<const int32_t>)>& sink) const override;
};

// One token in [0, 256) per byte of `text`.
std::vector<int32_t> encode_bytes(std::string_view text);

// The bytes of `tokens`, as printable text: what is not valid UTF-8 (and every token outside
// [0, 256), which a larger vocabulary may produce) becomes U+FFFD.
std::string decode_bytes(std::span<const int32_t> tokens);

// `bytes` with every maximal ill-formed sequence replaced by one U+FFFD, as Unicode 3.9 recommends.
std::string replace_invalid_utf8(std::string_view bytes);

}  // namespace lockstep::runtime

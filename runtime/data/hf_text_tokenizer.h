// Texts as documents of a Hugging Face tokenizer's tokens.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "runtime/common/result.h"
#include "runtime/data/tokenizer.h"
#include "runtime/text/hf_tokenizer.h"

namespace lockstep::runtime {

// A document is what the tokenizer makes of a text, with the special tokens that it sets around
// one, and its eos_token at the end: so a model learns where texts begin and end as it will be
// asked. There is no separator.
class HfTextTokenizer final : public Tokenizer {
 public:
  // A text is encoded as a whole, in about 100 bytes of memory per token.
  static constexpr std::size_t kMaxTextBytes = std::size_t{64} << 20U;

  // Reads `path`, as read_tokenizer_folder() takes it. Errors: of that and of open_tokenizer();
  // kInvalidArgument if eos_token is no token of the tokenizer's.
  static common::Result<HfTextTokenizer> open(const std::string& path);

  std::string name() const override { return name_; }
  int64_t num_token_ids() const override { return tokenizer_.num_ids(); }
  int32_t separator() const override { return -1; }
  common::Result<void> encode(
      std::string_view text,
      const std::function<void(std::span<const int32_t>)>& sink) const override;

  const HfTokenizer& tokenizer() const { return tokenizer_; }
  std::optional<int32_t> eos() const { return eos_; }

 private:
  explicit HfTextTokenizer(HfTokenizer tokenizer) : tokenizer_(std::move(tokenizer)) {}

  HfTokenizer tokenizer_;
  std::optional<int32_t> eos_;
  std::string name_;
};

}  // namespace lockstep::runtime

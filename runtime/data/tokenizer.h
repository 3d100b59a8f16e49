// The seam between text and tokens.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>

#include "runtime/common/result.h"

namespace lockstep::runtime {

class Tokenizer {
 public:
  virtual ~Tokenizer() = default;

  // Names the tokenizer and all that decides its tokens: other tokens, another name. At most 40
  // bytes.
  virtual std::string name() const = 0;
  virtual int64_t num_token_ids() const = 0;
  // What stands before every text but the first, see Note [Documents and separators]; -1: nothing.
  virtual int32_t separator() const = 0;
  // Gives the tokens of a text to `sink`, in order and in pieces, so that a text may be larger than
  // memory. A text of no bytes has no tokens. kInvalidArgument for a text that cannot be encoded.
  virtual common::Result<void> encode(
      std::string_view text, const std::function<void(std::span<const int32_t>)>& sink) const = 0;
};

}  // namespace lockstep::runtime

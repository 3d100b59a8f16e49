// Text that appears as its tokens come.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "runtime/train/speaking_model.h"

namespace lockstep::runtime {

// The pieces joined are what decode() makes of all tokens, and each is whole characters: a token
// that ends within one waits for those that complete it.
// Source: the two windows of text-generation-inference's streaming decoder.
class TextStream {
 public:
  //   vocabulary: borrowed, with a tokenizer; must outlive this object.
  explicit TextStream(const Vocabulary& vocabulary) : vocabulary_(vocabulary) {}

  // What this token adds to the text; empty while a character is incomplete.
  std::string add(int32_t token);
  // What is left behind the last token: U+FFFD for a character that never became complete.
  std::string finish();

 private:
  std::string rest() const;

  const Vocabulary& vocabulary_;
  std::vector<int32_t> tokens_;
  // Tokens [begin_, shown_) are shown; they are decoded again with those behind them, since what a
  // token's text is may depend on the one before.
  std::size_t begin_ = 0;
  std::size_t shown_ = 0;
};

}  // namespace lockstep::runtime

// Values from and to the Rust library.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/common/result.h"
#include "runtime/text/hf_tokenizer.h"
#include "runtime/text/rust/lockstep_text.h"

namespace lockstep::runtime {

inline const uint8_t* rust_bytes(std::string_view text) {
  return reinterpret_cast<const uint8_t*>(text.data());
}

// The text, which is freed.
inline std::string take_rust_text(LockstepBytes bytes) {
  std::string text(reinterpret_cast<const char*>(bytes.data), bytes.size);
  lockstep_text_free_bytes(bytes);
  return text;
}

// kInvalidArgument: "`name`: " and the text of `error`, which is freed.
inline common::Error rust_error(const std::string& name, LockstepBytes error) {
  return {common::ErrorCode::kInvalidArgument, name + ": " + take_rust_text(error), ""};
}

inline std::vector<TextSpan> rust_spans(const LockstepNumbers& numbers) {
  std::vector<TextSpan> spans(numbers.size / 2);
  for (std::size_t i = 0; i < spans.size(); ++i) {
    spans[i] = {.begin = static_cast<int64_t>(numbers.data[2 * i]),
                .end = static_cast<int64_t>(numbers.data[2 * i + 1])};
  }
  return spans;
}

}  // namespace lockstep::runtime

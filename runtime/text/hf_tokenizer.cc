#include "runtime/text/hf_tokenizer.h"

#include <limits>

#include "runtime/text/rust/lockstep_text.h"
#include "runtime/text/rust_text.h"

namespace lockstep::runtime {

using common::Error;
using common::ErrorCode;
using common::Result;

void HfTokenizer::Close::operator()(LockstepTokenizer* tokenizer) const {
  lockstep_tokenizer_close(tokenizer);
}

Result<HfTokenizer> HfTokenizer::open(std::string_view json, const std::string& name) {
  HfTokenizer opened;
  opened.name_ = name;
  LockstepTokenizer* tokenizer = nullptr;
  LockstepBytes error{};
  if (!lockstep_tokenizer_open(rust_bytes(json), json.size(), &tokenizer, &error)) {
    return rust_error(name, error);
  }
  opened.tokenizer_.reset(tokenizer);
  uint64_t num_ids = 0;
  uint64_t num_model_ids = 0;
  if (!lockstep_tokenizer_num_ids(tokenizer, true, &num_ids, &error) ||
      !lockstep_tokenizer_num_ids(tokenizer, false, &num_model_ids, &error)) {
    return rust_error(name, error);
  }
  if (num_ids == 0 || num_ids > std::numeric_limits<int32_t>::max()) {
    return Error{ErrorCode::kInvalidArgument,
                 name + ": the vocabulary has " + std::to_string(num_ids) + " ids", ""};
  }
  opened.num_ids_ = static_cast<int64_t>(num_ids);
  opened.num_model_ids_ = static_cast<int64_t>(num_model_ids);
  return opened;
}

std::optional<int32_t> HfTokenizer::id_of(std::string_view token) const {
  int64_t id = -1;
  LockstepBytes error{};
  if (!lockstep_tokenizer_id_of(tokenizer_.get(), rust_bytes(token), token.size(), &id, &error)) {
    lockstep_text_free_bytes(error);  // not UTF-8: no token is that
    return std::nullopt;
  }
  if (id < 0) return std::nullopt;
  return static_cast<int32_t>(id);
}

Result<Encoding> HfTokenizer::encode(std::string_view text, bool add_special_tokens) const {
  LockstepEncoding encoded{};
  LockstepBytes error{};
  if (!lockstep_tokenizer_encode(tokenizer_.get(), rust_bytes(text), text.size(),
                                 add_special_tokens, &encoded, &error)) {
    return rust_error(name_, error);
  }
  Encoding encoding;
  encoding.ids.assign(encoded.ids.data, encoded.ids.data + encoded.ids.size);
  encoding.offsets = rust_spans(encoded.offsets);
  lockstep_text_free_encoding(encoded);
  return encoding;
}

Result<std::string> HfTokenizer::decode(std::span<const int32_t> ids,
                                        bool skip_special_tokens) const {
  const std::vector<uint32_t> known(ids.begin(), ids.end());
  LockstepBytes text{};
  LockstepBytes error{};
  if (!lockstep_tokenizer_decode(tokenizer_.get(), known.data(), known.size(), skip_special_tokens,
                                 &text, &error)) {
    return rust_error(name_, error);
  }
  return take_rust_text(text);
}

}  // namespace lockstep::runtime

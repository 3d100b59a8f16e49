// Hugging Face tokenizers: what a tokenizer.json says, as Transformers carries it out.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/common/result.h"

struct LockstepTokenizer;  // rust/lockstep_text.h

namespace lockstep::runtime {

// Places in a text, in code points.
struct TextSpan {
  int64_t begin = 0;
  int64_t end = 0;

  friend bool operator==(const TextSpan&, const TextSpan&) = default;
};

struct Encoding {
  std::vector<int32_t> ids;
  std::vector<TextSpan> offsets;  // of each id: what of the text it stands for; empty for ids added
};

// All normalizers, pre-tokenizers, models, post-processors and decoders of the `tokenizers` crate.
// Const functions may be called from several threads.
class HfTokenizer {
 public:
  // `json`: the text of a tokenizer.json; its truncation and padding are left out, as Transformers
  // does unless asked. `name`: of the file, for errors. kInvalidArgument in the crate's words.
  static common::Result<HfTokenizer> open(std::string_view json, const std::string& name);

  // The largest id and 1: ids may have holes.
  int64_t num_ids() const { return num_ids_; }
  // The same without added tokens, of which a text may never have one.
  int64_t num_model_ids() const { return num_model_ids_; }
  std::optional<int32_t> id_of(std::string_view token) const;

  // The ids of all of `text`, in memory at once: about 100 bytes for each.
  //   add_special_tokens: what the post-processor sets around a text.
  // kInvalidArgument for what is not UTF-8, naming the first wrong byte, or cannot be encoded.
  common::Result<Encoding> encode(std::string_view text, bool add_special_tokens) const;

  // The text of `ids`; those that the tokenizer does not know have none.
  common::Result<std::string> decode(std::span<const int32_t> ids, bool skip_special_tokens) const;

 private:
  struct Close {
    void operator()(LockstepTokenizer* tokenizer) const;
  };
  HfTokenizer() = default;

  std::unique_ptr<LockstepTokenizer, Close> tokenizer_;
  std::string name_;
  int64_t num_ids_ = 0;
  int64_t num_model_ids_ = 0;
};

}  // namespace lockstep::runtime

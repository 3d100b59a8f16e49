// A trained model with all that it takes to make text with it: weights, vocabulary, template.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "runtime/common/model_config.h"
#include "runtime/kernels/typed_values.h"
#include "runtime/text/hf_tokenizer.h"
#include "runtime/text/tokenizer_folder.h"

namespace lockstep::runtime {

// What makes tokens of text and back: the tokenizer beside a model, or bytes.
struct Vocabulary {
  std::optional<HfTokenizer> tokenizer;
  std::optional<TokenizerFolder> files;  // of the tokenizer
  std::optional<int32_t> begin;          // what stands before a text
  std::set<int32_t> ends;                // what a text ends with
  int64_t num_tokens = 0;                // ids beyond mean nothing

  // Throws RunError(kInvalidConfig) for a text that the tokenizer or the model has no tokens for.
  std::vector<int32_t> encode(const std::string& text, bool add_special_tokens) const;
  // Special tokens have no text. Of bytes it need not be UTF-8.
  std::string decode(std::span<const int32_t> tokens) const;
};

struct SpeakingModel {
  std::string folder;  // the model's, or the adapter's
  common::ModelConfig config;
  Vocabulary vocabulary;
  std::vector<std::vector<float>> units;  // [unit elements] each; an adapter is added to them

  // [unit], valid as long as this object.
  std::vector<ConstValues> params() const;
};

// Loads a Hugging Face directory with config.json and safetensors, a PEFT adapter, or the `model`
// folder of a run's output that holds one of these. A model or base hf://ORG/NAME[@REVISION][/PATH]
// is fetched first, into the cache of this machine.
//   base: of an adapter: the model's directory; empty: where the adapter says.
// Ends of a text: the eos_token, and the eos_token_id of config.json and generation_config.json.
// Throws RunError: kInputNotFound or kInvalidData naming the file, kInvalidConfig for a vocabulary
// that bytes do not fit or a tokenizer of another kind; as fetch_verb().
SpeakingModel load_speaking_model(const std::string& model, const std::string& base);

}  // namespace lockstep::runtime

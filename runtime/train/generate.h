// Text from a trained model: the `generate` verb.
#pragma once

#include <cstdint>
#include <iosfwd>
#include <string>

#include "runtime/train/text_writer.h"

namespace lockstep::runtime {

struct GenerateOptions {
  std::string model;  // as load_speaking_model() takes it
  std::string base;
  std::string prompt;
  std::string prompts;  // a file with a prompt per line; empty: `prompt` alone
  WritingOptions writing;
  uint64_t seed = 42;
};

// Writes the prompt and its continuation: in bytes, or in the tokens of the tokenizer.json beside
// the model, up to an end of text, max_new_tokens or the last position that the model sees. Of
// `prompts` one JSON object per line, {"prompt": .., "text": ..}. The same options give the same
// text, of a prompt wherever it stands in its file.
// Throws RunError: as load_speaking_model(); kInputNotFound for a missing `prompts`, kInvalidConfig
// for both, for a prompt that there are no tokens for or that is longer than the model sees.
void generate(const GenerateOptions& options, std::ostream& out);

}  // namespace lockstep::runtime

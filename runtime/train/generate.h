// Text from a trained model: the `generate` verb.
#pragma once

#include <cstdint>
#include <string>

namespace lockstep::runtime {

struct GenerateOptions {
  std::string model;  // Hugging Face directory with config.json and safetensors
  std::string prompt;
  int64_t num_tokens = 200;  // to generate, at most
  double temperature = 0.8;  // 0 = always the likeliest token
  uint64_t seed = 42;
};

// The prompt and its continuation: in bytes, or in the tokens of the tokenizer.json beside the
// model, up to an eos_token. The same options give the same text.
// Throws RunError: kInputNotFound or kInvalidData naming the file, kInvalidConfig for a vocabulary
// that bytes do not fit, a tokenizer of another kind, or a prompt that it has no tokens for.
std::string generate(const GenerateOptions& options);

// The index of a token drawn from softmax(logits / temperature); `uniform` is in [0, 1).
int32_t draw_token(const float* logits, int64_t num_logits, double temperature, double uniform);

}  // namespace lockstep::runtime

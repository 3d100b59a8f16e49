#include "runtime/train/generate.h"

#include <algorithm>
#include <cmath>
#include <random>
#include <span>
#include <vector>

#include "runtime/common/config_json.h"
#include "runtime/common/model_folder.h"
#include "runtime/data/byte_tokenizer.h"
#include "runtime/model/decoder.h"
#include "runtime/train/pretrained_weights.h"
#include "runtime/train/run_error.h"

namespace lockstep::runtime {
namespace {

using common::ErrorCode;
using common::ExitCode;
using common::Result;

template <typename T>
T read_or_raise(Result<T> result) {
  const bool missing = !result && result.error().code == ErrorCode::kNotFound;
  return value_or_raise(std::move(result),
                        missing ? ExitCode::kInputNotFound : ExitCode::kInvalidData);
}

// The parameters of all units, [unit elements] each.
std::vector<std::vector<float>> load_units(const std::string& folder,
                                           const common::ModelConfig& config) {
  const std::vector<Unit> units = model_units(config);
  const PretrainedWeights weights = read_or_raise(PretrainedWeights::open(folder, config, units));
  std::vector<std::vector<float>> params;
  params.reserve(units.size());
  for (const Unit& unit : units) {
    const auto index = static_cast<int64_t>(params.size());
    std::vector<float>& values = params.emplace_back(static_cast<std::size_t>(unit.num_elems));
    read_or_raise(weights.read(index, 0, values));
  }
  return params;
}

}  // namespace

int32_t draw_token(const float* logits, int64_t num_logits, double temperature, double uniform) {
  const float* const best = std::max_element(logits, logits + num_logits);
  if (temperature <= 0) return static_cast<int32_t>(best - logits);
  std::vector<double> weights;
  double total = 0;
  for (int64_t i = 0; i < num_logits; ++i) {
    weights.push_back(std::exp((static_cast<double>(logits[i]) - *best) / temperature));
    total += weights.back();
  }
  double rest = uniform * total;
  for (int64_t i = 0; i < num_logits; ++i) {
    rest -= weights[static_cast<std::size_t>(i)];
    if (rest < 0) return static_cast<int32_t>(i);
  }
  return static_cast<int32_t>(best - logits);  // rounding left a crumb
}

std::string generate(const GenerateOptions& options) {
  const common::ModelConfig config =
      read_or_raise(common::read_config_json(options.model + "/config.json"));
  if (config.vocab_size < kNumByteTokens) {
    throw RunError({ExitCode::kInvalidConfig,
                    options.model + "/config.json: vocab_size must be at least 256, found " +
                        std::to_string(config.vocab_size),
                    "the model was not trained on bytes"});
  }
  if (const std::optional<std::string> tokenizer = common::find_tokenizer(options.model)) {
    throw RunError({ExitCode::kInvalidConfig,
                    *tokenizer + ": the model has a tokenizer of its own, which is not read",
                    "sample from it with Transformers"});
  }
  const std::vector<std::vector<float>> params = load_units(options.model, config);
  std::vector<ConstValues> pointers;
  pointers.reserve(params.size());
  for (const std::vector<float>& unit : params) pointers.emplace_back(unit.data());

  std::vector<int32_t> tokens = encode_bytes(options.prompt);
  const bool starts_empty = tokens.empty();
  if (starts_empty) tokens.push_back(0);  // what stands between two files of a corpus
  const auto total = static_cast<int64_t>(tokens.size()) + options.num_tokens;
  const int64_t window = std::min(config.max_position_embeddings, total);
  // No backward follows, so that no layer has to keep anything.
  Decoder decoder(config, {.batch = 1, .seq = window}, common::ActivationCheckpointing::kBlock);
  std::mt19937_64 random(options.seed);
  for (int64_t i = 0; i < options.num_tokens; ++i) {
    const auto seen = std::min(static_cast<std::size_t>(window), tokens.size());
    const std::vector<float> logits =
        decoder.next_token_logits(std::span(tokens).last(seen), pointers);
    const double uniform = static_cast<double>(random() >> 11) * 0x1p-53;
    // Tokens beyond the bytes mean nothing.
    tokens.push_back(draw_token(logits.data(), kNumByteTokens, options.temperature, uniform));
  }
  return decode_bytes(std::span(tokens).subspan(starts_empty ? 1 : 0));
}

}  // namespace lockstep::runtime

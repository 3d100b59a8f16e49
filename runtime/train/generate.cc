#include "runtime/train/generate.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <random>
#include <set>
#include <span>
#include <vector>

#include <nlohmann/json.hpp>

#include "runtime/common/config_json.h"
#include "runtime/common/model_folder.h"
#include "runtime/data/byte_tokenizer.h"
#include "runtime/model/decoder.h"
#include "runtime/text/tokenizer_folder.h"
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

// What makes tokens of text and back: the tokenizer beside a model, or bytes.
struct Vocabulary {
  std::optional<HfTokenizer> tokenizer;
  std::optional<int32_t> begin;  // what stands before a text
  std::set<int32_t> ends;        // what a text ends with
  int64_t num_tokens = kNumByteTokens;
};

Vocabulary open_bytes(const std::string& folder, const common::ModelConfig& config) {
  if (config.vocab_size < kNumByteTokens) {
    throw RunError({ExitCode::kInvalidConfig,
                    folder + "/config.json: vocab_size must be at least 256, found " +
                        std::to_string(config.vocab_size),
                    "the model was not trained on bytes"});
  }
  return {.begin = 0};  // what stands between two files of a corpus
}

Vocabulary open_vocabulary(const std::string& folder, const common::ModelConfig& config) {
  const std::optional<std::string> beside = common::find_tokenizer(folder);
  if (!beside) return open_bytes(folder, config);
  if (!beside->ends_with("/tokenizer.json")) {
    throw RunError({ExitCode::kInvalidConfig,
                    *beside + ": the model has a tokenizer of its own, which is not read",
                    "write a tokenizer.json with Transformers"});
  }
  const TokenizerFolder files = read_or_raise(read_tokenizer_folder(folder));
  Vocabulary vocabulary{.tokenizer = read_or_raise(open_tokenizer(files))};
  const HfTokenizer& tokenizer = *vocabulary.tokenizer;
  vocabulary.num_tokens = std::min(config.vocab_size, tokenizer.num_ids());
  const auto id_of = [&](const char* name) -> std::optional<int32_t> {
    const auto token = files.special_tokens.find(name);
    return token == files.special_tokens.end() ? std::nullopt : tokenizer.id_of(token->second);
  };
  vocabulary.begin = id_of("bos_token");
  if (const std::optional<int32_t> end = id_of("eos_token")) vocabulary.ends.insert(*end);
  const nlohmann::json ids = read_or_raise(common::read_special_ids(folder + "/config.json"));
  const nlohmann::json ends = ids.value("eos_token_id", nlohmann::json());
  for (const nlohmann::json& end : ends.is_array() ? ends : nlohmann::json::array({ends})) {
    if (end.is_number_integer()) vocabulary.ends.insert(end.get<int32_t>());
  }
  return vocabulary;
}

std::vector<int32_t> encode_prompt(const Vocabulary& vocabulary, const std::string& prompt) {
  if (!vocabulary.tokenizer) return encode_bytes(prompt);
  const std::vector<int32_t> ids =
      value_or_raise(vocabulary.tokenizer->encode(prompt, /*add_special_tokens=*/true),
                     ExitCode::kInvalidConfig)
          .ids;
  for (const int32_t id : ids) {
    if (id < vocabulary.num_tokens) continue;
    throw RunError({ExitCode::kInvalidConfig,
                    "the prompt has token " + std::to_string(id) + ", but the model knows " +
                        std::to_string(vocabulary.num_tokens),
                    "use the model's own tokenizer"});
  }
  return ids;
}

std::string decode(const Vocabulary& vocabulary, std::span<const int32_t> tokens) {
  if (!vocabulary.tokenizer) return decode_bytes(tokens);
  return value_or_raise(vocabulary.tokenizer->decode(tokens, /*skip_special_tokens=*/true),
                        ExitCode::kInvalidData);
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
  const Vocabulary vocabulary = open_vocabulary(options.model, config);
  const std::vector<std::vector<float>> params = load_units(options.model, config);
  std::vector<ConstValues> pointers;
  pointers.reserve(params.size());
  for (const std::vector<float>& unit : params) pointers.emplace_back(unit.data());

  std::vector<int32_t> tokens = encode_prompt(vocabulary, options.prompt);
  const bool starts_empty = tokens.empty();
  if (starts_empty && !vocabulary.begin) {
    throw RunError({ExitCode::kInvalidConfig, "the prompt has no tokens", "give --prompt a text"});
  }
  if (starts_empty) tokens.push_back(*vocabulary.begin);
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
    // Tokens beyond those of the vocabulary mean nothing.
    const int32_t next =
        draw_token(logits.data(), vocabulary.num_tokens, options.temperature, uniform);
    if (vocabulary.ends.contains(next)) break;
    tokens.push_back(next);
  }
  return decode(vocabulary, std::span(tokens).subspan(starts_empty ? 1 : 0));
}

}  // namespace lockstep::runtime

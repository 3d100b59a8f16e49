// Small models, deterministic numbers and one forward and backward pass, for tests of the decoder.
#pragma once

#include <cmath>
#include <cstdint>
#include <ostream>
#include <random>
#include <string>
#include <vector>

#include "runtime/common/model_json.h"
#include "runtime/common/train_config.h"
#include "runtime/kernels/elementwise.h"
#include "runtime/model/decoder.h"

namespace lockstep::runtime {

using UnitBuffers = std::vector<std::vector<float>>;  // one flat buffer per unit

struct TestModel {
  std::string name;
  common::ModelConfig config;
  BatchShape shape;
  DType dtype = DType::kFp32;  // of the computation
  int64_t document_rows = 0;   // sequences are cut into documents of that many; 0 = whole
};

// What GoogleTest shows of a parameter.
inline void PrintTo(const TestModel& model, std::ostream* out) {
  *out << model.name;
}

// No size is a power of two, so that every tail of every kernel is met.
inline TestModel odd_model() {
  return {.name = "odd",
          .config = {.model_type = "llama",
                     .vocab_size = 61,
                     .hidden_size = 48,
                     .intermediate_size = 40,
                     .num_hidden_layers = 3,
                     .num_attention_heads = 6,
                     .num_key_value_heads = 2,
                     .head_dim = 8,
                     .max_position_embeddings = 64},
          .shape = {.batch = 2, .seq = 37}};
}

// Heads of 32 whose total size is not the hidden size; all query heads share one key head.
inline TestModel wide_head_model() {
  return {.name = "wide_head",
          .config = {.model_type = "llama",
                     .vocab_size = 256,
                     .hidden_size = 64,
                     .intermediate_size = 176,
                     .num_hidden_layers = 2,
                     .num_attention_heads = 4,
                     .num_key_value_heads = 1,
                     .head_dim = 32,
                     .max_position_embeddings = 256,
                     .rope_theta = 50000.0},
          .shape = {.batch = 3, .seq = 130}};
}

inline TestModel packed_model() {
  TestModel model = odd_model();
  model.name = "packed";
  model.document_rows = 11;
  return model;
}

inline TestModel computed_in(DType dtype, TestModel model) {
  model.name += "_" + std::string(to_string(dtype));
  model.dtype = dtype;
  return model;
}

// Parameters as a block takes them: `floats` rounded to `dtype`, and what that leaves of them.
class TypedParams {
 public:
  TypedParams(DType dtype, const std::vector<float>& floats)
      : dtype_(dtype), floats_(floats), halves_(floats.size()) {
    if (dtype == DType::kFp32) return;
    const auto count = static_cast<int64_t>(floats.size());
    narrow(count, floats.data(), {dtype, halves_.data()});
    widen(count, {dtype, halves_.data()}, floats_.data());
  }
  ConstValues values() const {
    if (dtype_ == DType::kFp32) return floats_.data();
    return {dtype_, halves_.data()};
  }
  const std::vector<float>& floats() const { return floats_; }

 private:
  DType dtype_;
  std::vector<float> floats_;
  std::vector<uint16_t> halves_;
};

// Place of each row in its document, [batch * seq].
inline std::vector<int32_t> positions_of(const TestModel& model) {
  const int64_t length = model.document_rows > 0 ? model.document_rows : model.shape.seq;
  std::vector<int32_t> positions;
  for (int64_t row = 0; row < model.shape.rows(); ++row) {
    positions.push_back(static_cast<int32_t>(row % model.shape.seq % length));
  }
  return positions;
}

// One token per sequence, as many key heads as query heads.
inline TestModel single_token_model() {
  return {.name = "single_token",
          .config = {.model_type = "llama",
                     .vocab_size = 17,
                     .hidden_size = 24,
                     .intermediate_size = 33,
                     .num_hidden_layers = 1,
                     .num_attention_heads = 2,
                     .num_key_value_heads = 2,
                     .head_dim = 12,
                     .max_position_embeddings = 8},
          .shape = {.batch = 5, .seq = 1}};
}

// More rows than a chunk of logits has, and no multiple of it.
inline TestModel large_vocabulary_model() {
  return {.name = "large_vocabulary",
          .config = {.model_type = "llama",
                     .vocab_size = 20011,
                     .hidden_size = 24,
                     .intermediate_size = 33,
                     .num_hidden_layers = 1,
                     .num_attention_heads = 2,
                     .num_key_value_heads = 1,
                     .head_dim = 12,
                     .max_position_embeddings = 200},
          .shape = {.batch = 3, .seq = 100}};
}

// The head uses the embedding's weight.
inline TestModel tied_model() {
  TestModel model = odd_model();
  model.name = "tied";
  model.config.tie_word_embeddings = true;
  return model;
}

// A small model of a family, with what it has beyond the others switched on.
inline TestModel family_model(const std::string& model_type,
                              const nlohmann::json& fields = nlohmann::json::object()) {
  nlohmann::json config = {
      {"model_type", model_type}, {"vocab_size", 61},       {"hidden_size", 48},
      {"intermediate_size", 40},  {"num_hidden_layers", 3}, {"num_attention_heads", 6},
      {"num_key_value_heads", 2}, {"head_dim", 8},          {"max_position_embeddings", 64}};
  config.update(fields);
  return {.name = model_type,
          .config = common::decode_model_json(config).value(),
          .shape = {.batch = 2, .seq = 37}};
}

// One of every family in the table but llama.
inline std::vector<TestModel> family_models() {
  return {
      family_model("mistral", {{"sliding_window", 9}}),
      family_model("qwen2",
                   {{"use_sliding_window", true}, {"sliding_window", 9}, {"max_window_layers", 1}}),
      family_model("qwen3", {{"head_dim", 12}, {"attention_bias", true}}),
      family_model("mixtral", {{"num_local_experts", 5}}),
      family_model(
          "qwen3_moe",
          {{"num_local_experts", 7}, {"num_experts_per_tok", 3}, {"moe_intermediate_size", 24}}),
      family_model("granite", {{"attention_multiplier", 0.3},
                               {"embedding_multiplier", 3.0},
                               {"residual_multiplier", 0.6},
                               {"logits_scaling", 1.7}}),
      family_model("olmo2"),
      family_model("phi3", {{"partial_rotary_factor", 0.5}, {"sliding_window", 10}}),
      family_model("gpt2", {{"num_key_value_heads", 6}}),
      family_model("gemma2",
                   {{"sliding_window", 9}, {"query_pre_attn_scalar", 20}, {"hidden_act", "gelu"}}),
      family_model("gemma3_text", {{"sliding_window", 9}, {"sliding_window_pattern", 2}})};
}

inline std::vector<float> random_floats(int64_t count, uint32_t seed, float deviation,
                                        float mean = 0) {
  std::mt19937 generator(seed);
  std::normal_distribution<float> normal(mean, deviation);
  std::vector<float> values(static_cast<size_t>(count));
  for (float& value : values) value = normal(generator);
  return values;
}

inline std::vector<int32_t> random_tokens(int64_t count, int64_t vocab, uint32_t seed) {
  std::mt19937 generator(seed);
  std::vector<int32_t> tokens(static_cast<size_t>(count));
  for (int32_t& token : tokens)
    token = static_cast<int32_t>(generator() % static_cast<uint32_t>(vocab));
  return tokens;
}

// Weights large enough that attention and SwiGLU leave their linear range; norms are not ones.
inline std::vector<float> random_unit(const Unit& unit, uint32_t seed) {
  std::vector<float> flat;
  for (const UnitTensor& tensor : unit.tensors) {
    const bool is_norm = tensor.init == Init::kOnes;
    const std::vector<float> part =
        random_floats(tensor.num_elems, ++seed, is_norm ? 0.3f : 0.2f, is_norm ? 1.0f : 0.0f);
    flat.insert(flat.end(), part.begin(), part.end());
  }
  return flat;
}

inline UnitBuffers random_params(const common::ModelConfig& config, uint32_t seed) {
  UnitBuffers params;
  for (const Unit& unit : model_units(config)) {
    params.push_back(random_unit(unit, seed));
    seed += 100;
  }
  return params;
}

struct PassResult {
  double loss_sum = 0;
  UnitBuffers gradients;
};

// Forward and backward of one micro-batch; gradients are those of loss_sum * loss_scale.
//   frozen: [unit], those without a gradient; empty = none. What they would have stays NaN.
inline PassResult run_pass(Decoder& decoder, const UnitBuffers& params, MicroBatchIo io,
                           DType dtype = DType::kFp32, const std::vector<bool>& frozen = {}) {
  const auto gradient_of = [&frozen](std::vector<float>& gradient, int64_t unit) {
    return !frozen.empty() && frozen[static_cast<size_t>(unit)] ? nullptr : gradient.data();
  };
  PassResult result;
  std::vector<TypedParams> typed;
  for (const std::vector<float>& unit : params) typed.emplace_back(dtype, unit);
  const int64_t last = decoder.num_blocks() - 1;
  const bool is_tied = decoder.tied_block() == 0;
  for (int64_t block = 0; block <= last; ++block) {
    if (is_tied && block == last) decoder.lend_tied(typed.front().values(), nullptr);
    decoder.forward_block(block, typed[static_cast<size_t>(block)].values(), io);
    // Not a number: an element that backward does not write cannot pass as a gradient.
    result.gradients.emplace_back(static_cast<size_t>(decoder.unit(block).num_elems),
                                  std::nanf(""));
  }
  for (int64_t block = last; block >= 0; --block) {
    const auto i = static_cast<size_t>(block);
    if (is_tied && block == last) {
      decoder.lend_tied(typed.front().values(), gradient_of(result.gradients.front(), 0));
    }
    float* const gradient = gradient_of(result.gradients[i], block);
    if (block > 0 || gradient != nullptr) {
      decoder.backward_block(block, typed[i].values(), io, gradient);
    }
  }
  result.loss_sum = io.loss_sum;
  return result;
}

}  // namespace lockstep::runtime

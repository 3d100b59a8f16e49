#include "runtime/train/pretrained_weights.h"

#include <cstring>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/runtime/checkpoint/test_safetensors.h"
#include "tests/runtime/data/temp_folder.h"
#include "tests/runtime/model/test_models.h"

namespace lockstep::runtime {
namespace {

using common::ErrorCode;
using common::ModelConfig;
using testing::HasSubstr;

std::vector<TestModel> all_models() {
  std::vector<TestModel> models = family_models();
  models.push_back(odd_model());
  models.push_back(tied_model());
  return models;
}

// The model's tensors as a directory has them; `dtype` is theirs.
TestTensors tensors_of(const ModelConfig& config, const UnitBuffers& params,
                       DType dtype = DType::kFp32) {
  TestTensors tensors;
  size_t index = 0;
  for (const Unit& unit : model_units(config)) {
    const std::vector<float>& values = params[index++];
    for (const UnitTensor& tensor : unit.tensors) {
      const std::span<const float> part = std::span(values).subspan(
          static_cast<size_t>(tensor.begin_elem), static_cast<size_t>(tensor.num_elems));
      if (dtype == DType::kFp32) {
        tensors[tensor.name] = floats(tensor.shape, part);
        continue;
      }
      std::vector<uint16_t> halves(part.size());
      narrow(tensor.num_elems, part.data(), {dtype, halves.data()});
      tensors[tensor.name] = {dtype == DType::kBf16 ? "BF16" : "F16", tensor.shape,
                              bytes_of<uint16_t>(halves)};
    }
  }
  return tensors;
}

class PretrainedWeightsTest : public testing::Test {
 protected:
  common::Result<PretrainedWeights> open(const TestTensors& tensors, const ModelConfig& config) {
    write_text(folder_ / "model.safetensors", safetensors_text(tensors));
    return PretrainedWeights::open(folder_.path(), config, model_units(config));
  }

  // Reads every unit in slices of odd sizes and compares bits.
  void expect_weights(const TestTensors& tensors, const ModelConfig& config,
                      const UnitBuffers& expected) {
    const auto weights = open(tensors, config);
    ASSERT_TRUE(weights) << weights.error().message;
    for (size_t unit = 0; unit < expected.size(); ++unit) {
      std::vector<float> values(expected[unit].size(), std::nanf(""));
      for (size_t begin = 0; begin < values.size(); begin += 1021) {
        const size_t count = std::min<size_t>(1021, values.size() - begin);
        ASSERT_TRUE(weights->read(static_cast<int64_t>(unit), static_cast<int64_t>(begin),
                                  std::span(values).subspan(begin, count)));
      }
      EXPECT_EQ(std::memcmp(values.data(), expected[unit].data(), values.size() * sizeof(float)), 0)
          << config.model_type << " unit " << unit;
    }
  }

  common::Error refusal(const TestTensors& tensors, const ModelConfig& config) {
    const auto weights = open(tensors, config);
    return weights ? common::Error{} : weights.error();
  }

  TempFolder folder_;
};

TEST_F(PretrainedWeightsTest, EveryFamilyAndTypeIsReadByAnySlices) {
  for (const TestModel& model : all_models()) {
    const UnitBuffers params = random_params(model.config, 1);
    for (const DType dtype : {DType::kFp32, DType::kBf16, DType::kFp16}) {
      UnitBuffers rounded;
      for (const std::vector<float>& unit : params) {
        rounded.push_back(TypedParams(dtype, unit).floats());
      }
      expect_weights(tensors_of(model.config, params, dtype), model.config, rounded);
    }
  }
}

TEST_F(PretrainedWeightsTest, NamesMayLackTheFirstPartAndBuffersArePassedOver) {
  const std::vector<float> zeros(4);
  for (const TestModel& model : all_models()) {
    const UnitBuffers params = random_params(model.config, 2);
    TestTensors bare;
    for (auto& [name, tensor] : tensors_of(model.config, params)) {
      const bool is_head = name == "lm_head.weight";
      bare[is_head ? name : name.substr(name.find('.') + 1)] = tensor;
    }
    const bool is_gpt2 = model.config.model_type == "gpt2";
    bare[is_gpt2 ? "h.0.attn.bias" : "layers.0.self_attn.rotary_emb.inv_freq"] = floats({4}, zeros);
    expect_weights(bare, model.config, params);
  }
}

TEST_F(PretrainedWeightsTest, AHeadBesideTiedEmbeddingsMustBeTheSame) {
  const ModelConfig config = tied_model().config;
  const UnitBuffers params = random_params(config, 3);
  TestTensors tensors = tensors_of(config, params);
  tensors["lm_head.weight"] = tensors.at("model.embed_tokens.weight");
  expect_weights(tensors, config, params);

  tensors["lm_head.weight"].bytes.back() ^= 1;
  const auto weights = open(tensors, config);
  ASSERT_TRUE(weights);
  std::vector<float> values(params.front().size());
  EXPECT_TRUE(weights->read(0, 0, std::span(values).first(values.size() - 1)));
  const auto read = weights->read(0, 0, values);
  ASSERT_FALSE(read);
  EXPECT_EQ(read.error().code, ErrorCode::kInvalidArgument);
  EXPECT_THAT(read.error().message, HasSubstr("tensor lm_head.weight differs"));
}

TEST_F(PretrainedWeightsTest, WhatDoesNotFitTheModelIsRefusedByFileAndTensor) {
  const ModelConfig config = odd_model().config;
  const TestTensors sound = tensors_of(config, random_params(config, 4));
  const std::string down = "model.layers.1.mlp.down_proj.weight";

  TestTensors missing = sound;
  missing.erase(down);
  EXPECT_THAT(refusal(missing, config).message, HasSubstr("has no tensor " + down));

  TestTensors extra = sound;
  extra["model.layers.3.mlp.down_proj.weight"] = sound.at(down);
  EXPECT_THAT(refusal(extra, config).message,
              HasSubstr("model.safetensors: tensor model.layers.3.mlp.down_proj.weight is none"));

  TestTensors turned = sound;
  std::swap(turned[down].shape[0], turned[down].shape[1]);
  EXPECT_THAT(refusal(turned, config).message,
              HasSubstr("tensor " + down + " has shape [40, 48], the model's has [48, 40]"));

  TestTensors integers = sound;
  integers[down].dtype = "I32";
  EXPECT_THAT(refusal(integers, config).message, HasSubstr("tensor " + down + " has type I32"));

  for (const TestTensors& wrong : {missing, extra, turned, integers}) {
    EXPECT_EQ(refusal(wrong, config).code, ErrorCode::kInvalidArgument);
    EXPECT_FALSE(refusal(wrong, config).hint.empty());
  }
}

// A model for sequence classification takes a whole one's directory, or one of its own kind.
TEST_F(PretrainedWeightsTest, AScoreMayBeMissingAndAHeadLeftOver) {
  ModelConfig config = odd_model().config;
  const TestTensors whole = tensors_of(config, random_params(config, 4));
  config.has_score = true;
  const UnitBuffers params = random_params(config, 4);
  expect_weights(tensors_of(config, params), config, params);

  const auto weights = open(whole, config);
  ASSERT_TRUE(weights) << weights.error().message;
  const auto head = static_cast<int64_t>(params.size()) - 1;
  EXPECT_TRUE(weights->lacks_some(head));
  EXPECT_FALSE(weights->lacks_some(head - 1));
  std::vector<float> values(params.back().size(), 7.0F);
  ASSERT_TRUE(weights->read(head, 0, values));
  const auto hidden = static_cast<std::size_t>(config.hidden_size);
  EXPECT_TRUE(
      std::equal(values.begin(), values.begin() + config.hidden_size, params.back().begin()));
  EXPECT_EQ(std::vector<float>(values.begin() + config.hidden_size, values.end()),
            std::vector<float>(hidden, 7.0F));

  TestTensors two_labels = tensors_of(config, params);
  two_labels["score.weight"].shape = {2, 24};
  EXPECT_THAT(refusal(two_labels, config).message, HasSubstr("tensor score.weight has shape"));
}

}  // namespace
}  // namespace lockstep::runtime

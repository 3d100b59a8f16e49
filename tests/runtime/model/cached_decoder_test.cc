#include "runtime/model/cached_decoder.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <stdexcept>

#include <gtest/gtest.h>

#include "tests/runtime/model/test_models.h"

namespace lockstep::runtime {
namespace {

class CachedDecoderTest : public testing::Test {
 protected:
  static CachedDecoder decoder_of(const TestModel& model, const UnitBuffers& params,
                                  int64_t max_tokens) {
    std::vector<ConstValues> pointers;
    for (const std::vector<float>& unit : params) pointers.emplace_back(unit.data());
    return {model.config, max_tokens, std::move(pointers)};
  }

  // Logits behind every token, the sequence put in by pieces of so many; behind the last of each.
  static std::vector<std::vector<float>> logits_by(CachedDecoder& decoder,
                                                   const std::vector<int32_t>& tokens,
                                                   std::size_t piece) {
    std::vector<std::vector<float>> logits;
    for (std::size_t begin = 0; begin < tokens.size(); begin += piece) {
      const std::size_t count = std::min(piece, tokens.size() - begin);
      logits.push_back(decoder.extend(std::span(tokens).subspan(begin, count)));
    }
    return logits;
  }
};

// Relative to the largest.
double error_of(const std::vector<float>& got, const std::vector<float>& want) {
  double most = 0;
  double error = 0;
  for (std::size_t i = 0; i < want.size(); ++i) {
    most = std::max(most, std::abs(static_cast<double>(want[i])));
    error = std::max(error, std::abs(static_cast<double>(got[i]) - want[i]));
  }
  return error / most;
}

bool same_logits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

TEST_F(CachedDecoderTest, EveryFamilyGoesOnFromItsCacheAsFromTheWholeSequence) {
  std::vector<TestModel> models = family_models();
  models.push_back(odd_model());
  models.push_back(tied_model());
  for (const TestModel& model : models) {
    const UnitBuffers params = random_params(model.config, 5);
    const std::vector<int32_t> tokens = random_tokens(37, model.config.vocab_size, 9);
    CachedDecoder stepping = decoder_of(model, params, 40);
    const auto by_token = logits_by(stepping, tokens, 1);
    CachedDecoder whole = decoder_of(model, params, 40);
    EXPECT_EQ(stepping.num_tokens(), 37);
    for (const std::size_t end : {1, 12, 37}) {
      whole.keep(0);
      const std::vector<float> want = whole.extend(std::span(tokens).first(end));
      // The rounding of fp32: products of one row and of many add up in other orders.
      EXPECT_LT(error_of(by_token[end - 1], want), 1e-5) << model.name << " " << end;
    }
  }
}

TEST_F(CachedDecoderTest, ASequenceLongerThanAPieceIsOneSequence) {
  TestModel model = odd_model();
  model.config.max_position_embeddings = 400;
  const UnitBuffers params = random_params(model.config, 5);
  const std::vector<int32_t> tokens = random_tokens(300, model.config.vocab_size, 9);
  CachedDecoder at_once = decoder_of(model, params, 300);
  CachedDecoder stepping = decoder_of(model, params, 300);
  EXPECT_LT(error_of(logits_by(stepping, tokens, 1).back(), at_once.extend(tokens)), 1e-5);
}

TEST_F(CachedDecoderTest, WhatIsForgottenLeavesNoTrace) {
  const TestModel model = family_model("gemma2", {{"sliding_window", 9}});
  const UnitBuffers params = random_params(model.config, 5);
  const std::vector<int32_t> tokens = random_tokens(30, model.config.vocab_size, 9);
  const std::vector<int32_t> others = random_tokens(20, model.config.vocab_size, 10);
  CachedDecoder fresh = decoder_of(model, params, 40);
  const auto want = logits_by(fresh, tokens, 10);
  CachedDecoder decoder = decoder_of(model, params, 40);
  decoder.extend(std::span(tokens).first(10));
  decoder.extend(others);
  decoder.keep(10);
  EXPECT_TRUE(same_logits(decoder.extend(std::span(tokens).subspan(10, 10)), want[1]));
  EXPECT_FALSE(same_logits(decoder.extend(std::span(others).first(10)), want[2]));
}

TEST_F(CachedDecoderTest, WhatThereIsNoRoomForIsRefusedAndChangesNothing) {
  const TestModel model = odd_model();
  const UnitBuffers params = random_params(model.config, 5);
  const std::vector<int32_t> tokens = random_tokens(8, model.config.vocab_size, 9);
  CachedDecoder decoder = decoder_of(model, params, 8);
  decoder.extend(std::span(tokens).first(5));
  EXPECT_THROW(decoder.extend(std::span(tokens).first(4)), std::invalid_argument);
  EXPECT_THROW(decoder.extend({}), std::invalid_argument);
  EXPECT_THROW(decoder.keep(6), std::invalid_argument);
  EXPECT_THROW(decoder.extend(std::vector<int32_t>{1, 61}), std::out_of_range);
  EXPECT_EQ(decoder.num_tokens(), 5);
  EXPECT_NO_THROW(decoder.extend(std::span(tokens).subspan(5)));
}

TEST_F(CachedDecoderTest, ParametersOfAnotherNumberOfBlocksAreRefused) {
  const TestModel model = odd_model();
  EXPECT_THROW(CachedDecoder(model.config, 8, {}), std::invalid_argument);
}

}  // namespace
}  // namespace lockstep::runtime

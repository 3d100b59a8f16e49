#include "runtime/model/adapters.h"

#include <cmath>
#include <cstring>
#include <stdexcept>

#include <gtest/gtest.h>

#include "runtime/common/estimate_memory.h"
#include "tests/runtime/model/test_models.h"

namespace lockstep::runtime {
namespace {

using common::ActivationCheckpointing;
using common::LoraConfig;

constexpr TrainingPlace kPlace = {.seed = 42, .step = 3, .micro_batch = 5};

std::vector<float> dropped_ones(const DropoutMask& mask, int64_t n) {
  std::vector<float> ones(static_cast<size_t>(n), 1.0F);
  apply_dropout(mask, n, ones.data());
  return ones;
}

TEST(DropoutTest, AMaskIsAFunctionOfItsPlace) {
  const DropoutMask mask = {.rate = 0.25, .place = kPlace, .layer = 2, .module = 1};
  const std::vector<float> first = dropped_ones(mask, 4001);
  EXPECT_EQ(dropped_ones(mask, 4001), first);
  const std::vector<float> shorter = dropped_ones(mask, 1003);
  EXPECT_TRUE(std::equal(shorter.begin(), shorter.end(), first.begin()));
  std::vector<DropoutMask> others(5, mask);
  others[0].place.seed = 43;
  others[1].place.step = 4;
  others[2].place.micro_batch = 6;
  others[3].layer = 3;
  others[4].module = 2;
  for (const DropoutMask& other : others) EXPECT_NE(dropped_ones(other, 4001), first);
}

TEST(DropoutTest, DropsItsShareAndKeepsTheMean) {
  const int64_t n = 200000;
  for (const double rate : {0.0, 0.05, 0.5}) {
    const std::vector<float> ones =
        dropped_ones({.rate = rate, .place = kPlace, .layer = 0, .module = 0}, n);
    const auto dropped = static_cast<double>(std::count(ones.begin(), ones.end(), 0.0F));
    EXPECT_NEAR(dropped / static_cast<double>(n), rate, 0.005);
    for (const float value : ones) {
      ASSERT_TRUE(value == 0 || value == static_cast<float>(1 / (1 - rate)));
    }
  }
}

struct AdaptedPass {
  double loss_sum = 0;
  std::vector<std::vector<float>> gradients;  // [layer], of the adapters
};

// As run_micro_batch(): the model's own units are frozen.
class AdaptersTest : public testing::Test {
 protected:
  static UnitBuffers random_adapters(const TestModel& model, const LoraConfig& lora,
                                     uint32_t seed) {
    UnitBuffers adapters;
    for (int64_t layer = 0; layer < model.config.num_hidden_layers; ++layer) {
      adapters.push_back(random_unit(adapter_unit(model.config, lora, layer), seed));
      seed += 100;
    }
    return adapters;
  }

  static MicroBatchIo io_of(const std::vector<int32_t>& tokens, const std::vector<int32_t>& labels,
                            const TrainingPlace* place) {
    return {.tokens = tokens.data(), .labels = labels.data(), .loss_scale = 0.01F, .place = place};
  }

  static AdaptedPass run(Decoder& decoder, const TestModel& model, const UnitBuffers& params,
                         const UnitBuffers& adapters, const TrainingPlace* place) {
    const std::vector<int32_t> tokens =
        random_tokens(model.shape.rows(), model.config.vocab_size, 1);
    const std::vector<int32_t> labels =
        random_tokens(model.shape.rows(), model.config.vocab_size, 2);
    MicroBatchIo io = io_of(tokens, labels, place);
    std::vector<TypedParams> typed;
    std::vector<TypedParams> lent;
    for (const std::vector<float>& unit : params) typed.emplace_back(model.dtype, unit);
    for (const std::vector<float>& unit : adapters) lent.emplace_back(model.dtype, unit);
    AdaptedPass pass;
    for (const std::vector<float>& unit : adapters) {
      pass.gradients.emplace_back(unit.size(), std::nanf(""));
    }
    const int64_t last = decoder.num_blocks() - 1;
    const auto lend = [&](int64_t block, bool is_backward) {
      const int64_t unit = decoder.adapter_unit(block);
      if (unit < 0) return;
      const auto layer = static_cast<size_t>(unit - decoder.num_blocks());
      decoder.lend_adapters(lent[layer].values(),
                            is_backward ? pass.gradients[layer].data() : nullptr);
    };
    for (int64_t block = 0; block < last; ++block) {
      lend(block, false);
      decoder.forward_block(block, typed[static_cast<size_t>(block)].values(), io);
    }
    for (int64_t block = last; block >= 1; --block) {
      lend(block, true);
      decoder.backward_block(block, typed[static_cast<size_t>(block)].values(), io, nullptr);
    }
    pass.loss_sum = io.loss_sum;
    return pass;
  }

  static LoraConfig lora_of(double dropout) {
    return {.rank = 4, .alpha = 8, .dropout = dropout, .targets = {"all-linear"}};
  }
};

TEST_F(AdaptersTest, FreshOnesChangeNothing) {
  const TestModel model = odd_model();
  const LoraConfig lora = lora_of(0.1);
  const UnitBuffers params = random_params(model.config, 7);
  UnitBuffers fresh;
  for (int64_t layer = 0; layer < model.config.num_hidden_layers; ++layer) {
    const Unit unit = adapter_unit(model.config, lora, layer);
    fresh.emplace_back(static_cast<size_t>(unit.num_elems));
    initial_weights(unit, 42, model.config.initializer_range, 0, fresh.back());
    for (const UnitTensor& tensor : unit.tensors) {
      const auto part = std::span(fresh.back())
                            .subspan(static_cast<size_t>(tensor.begin_elem),
                                     static_cast<size_t>(tensor.num_elems));
      const float largest = *std::max_element(part.begin(), part.end());
      const float least = *std::min_element(part.begin(), part.end());
      const bool is_a = tensor.role == common::TensorRole::kAdapterA;
      const double bound = is_a ? 1 / std::sqrt(static_cast<double>(tensor.shape[1])) : 0;
      EXPECT_LE(largest, bound);
      EXPECT_GE(largest, 0.9 * bound) << tensor.name;
      EXPECT_GE(least, -bound);
      EXPECT_LE(least, -0.9 * bound) << tensor.name;
    }
  }
  Decoder plain(model.config, model.shape);
  Decoder adapted(model.config, model.shape, ActivationCheckpointing::kNone, DType::kFp32, false,
                  lora);
  const std::vector<int32_t> tokens = random_tokens(model.shape.rows(), model.config.vocab_size, 1);
  const std::vector<int32_t> labels = random_tokens(model.shape.rows(), model.config.vocab_size, 2);
  const double expected = run_pass(plain, params, io_of(tokens, labels, nullptr)).loss_sum;
  EXPECT_EQ(run(adapted, model, params, fresh, &kPlace).loss_sum, expected);
}

TEST_F(AdaptersTest, ActivationCheckpointingGivesTheSameBits) {
  for (const DType dtype : {DType::kFp32, DType::kBf16}) {
    for (TestModel model : {odd_model(), family_model("gemma2", {{"sliding_window", 9}})}) {
      model.dtype = dtype;
      model.config.tie_word_embeddings = false;
      const LoraConfig lora = lora_of(0.2);
      const UnitBuffers params = random_params(model.config, 7);
      const UnitBuffers adapters = random_adapters(model, lora, 9);
      Decoder all(model.config, model.shape, ActivationCheckpointing::kNone, dtype, false, lora);
      const AdaptedPass expected = run(all, model, params, adapters, &kPlace);
      ASSERT_TRUE(std::isfinite(expected.loss_sum));
      for (const auto mode :
           {ActivationCheckpointing::kBlock, ActivationCheckpointing::kSelective}) {
        Decoder some(model.config, model.shape, mode, dtype, false, lora);
        const AdaptedPass pass = run(some, model, params, adapters, &kPlace);
        EXPECT_EQ(pass.loss_sum, expected.loss_sum);
        EXPECT_EQ(pass.gradients, expected.gradients) << model.name;
      }
    }
  }
}

TEST_F(AdaptersTest, DropoutIsOffWithoutAPlaceAndOtherAtAnotherStep) {
  const TestModel model = odd_model();
  const UnitBuffers params = random_params(model.config, 7);
  const UnitBuffers adapters = random_adapters(model, lora_of(0.2), 9);
  const auto loss = [&](double rate, const TrainingPlace* place) {
    Decoder decoder(model.config, model.shape, ActivationCheckpointing::kNone, DType::kFp32, false,
                    lora_of(rate));
    return run(decoder, model, params, adapters, place).loss_sum;
  };
  EXPECT_EQ(loss(0.2, nullptr), loss(0, &kPlace));
  EXPECT_NE(loss(0.2, &kPlace), loss(0.2, nullptr));
  const TrainingPlace later = {.seed = 42, .step = 4, .micro_batch = 5};
  EXPECT_NE(loss(0.2, &kPlace), loss(0.2, &later));
}

// The slope of the loss along the gradient is its squared norm: masks are the same in both passes.
TEST_F(AdaptersTest, GradientsUnderDropoutAreThoseOfTheLoss) {
  const TestModel model = odd_model();
  const LoraConfig lora = lora_of(0.3);
  const UnitBuffers params = random_params(model.config, 7);
  const UnitBuffers adapters = random_adapters(model, lora, 9);
  Decoder decoder(model.config, model.shape, ActivationCheckpointing::kNone, DType::kFp32, false,
                  lora);
  const AdaptedPass at = run(decoder, model, params, adapters, &kPlace);
  double squared = 0;
  for (const auto& unit : at.gradients) {
    for (const float g : unit) squared += static_cast<double>(g) * g;
  }
  const auto loss_along = [&](double step) {
    UnitBuffers moved = adapters;
    for (size_t i = 0; i < moved.size(); ++i) {
      for (size_t j = 0; j < moved[i].size(); ++j) {
        moved[i][j] += static_cast<float>(step * at.gradients[i][j] / std::sqrt(squared));
      }
    }
    return 0.01 * run(decoder, model, params, moved, &kPlace).loss_sum;
  };
  constexpr double kStep = 1e-3;
  const double slope = (loss_along(kStep) - loss_along(-kStep)) / (2 * kStep);
  EXPECT_NEAR(slope, std::sqrt(squared), 5e-3 * std::sqrt(squared));
}

TEST_F(AdaptersTest, AnAdaptedDecoderHoldsWhatTheEstimateSays) {
  std::vector<TestModel> models = family_models();
  models.push_back(odd_model());
  for (const TestModel& model : models) {
    for (const DType dtype : {DType::kFp32, DType::kBf16}) {
      for (const double dropout : {0.0, 0.1}) {
        common::TrainConfig train;
        train.model = model.config;
        train.data.sequence_length = model.shape.seq;
        train.batch = {.global_batch_size = model.shape.batch,
                       .micro_batch_size = model.shape.batch};
        train.precision = dtype;
        train.lora = lora_of(dropout);
        const common::MemoryEstimate memory = estimate_memory(train, common::Strategy::kDdp, 1);
        const Decoder decoder(model.config, model.shape, ActivationCheckpointing::kNone, dtype,
                              false, train.lora);
        EXPECT_EQ(decoder.buffer_bytes(), memory.activations + memory.logits)
            << model.name << " " << to_string(dtype) << " " << dropout;
      }
    }
  }
}

TEST_F(AdaptersTest, ALayerRefusesToRunWithoutThem) {
  const TestModel model = odd_model();
  const UnitBuffers params = random_params(model.config, 7);
  Decoder decoder(model.config, model.shape, ActivationCheckpointing::kNone, DType::kFp32, false,
                  lora_of(0));
  const std::vector<int32_t> tokens = random_tokens(model.shape.rows(), model.config.vocab_size, 1);
  MicroBatchIo io = io_of(tokens, tokens, nullptr);
  decoder.forward_block(0, params[0].data(), io);
  EXPECT_THROW(decoder.forward_block(1, params[1].data(), io), std::logic_error);
  EXPECT_EQ(decoder.adapter_unit(0), -1);
  EXPECT_EQ(decoder.adapter_unit(1), decoder.num_blocks());
  EXPECT_EQ(decoder.adapter_unit(decoder.num_blocks() - 1), -1);
}

}  // namespace
}  // namespace lockstep::runtime

// A decoder layer and a head that nobody wrote a backward for, in the place of our hand-written
// ones: within 1e-5 of them, the rounding of fp32, and a model of both kinds trains.
#include "runtime/custom/autograd_block.h"

#include <cmath>

#include <gtest/gtest.h>

#include "runtime/model/decoder_layer.h"
#include "runtime/model/embedding.h"
#include "runtime/model/head.h"
#include "runtime/model/rotary.h"
#include "runtime/train/run_error.h"
#include "tests/runtime/model/reference.h"
#include "tests/runtime/model/test_models.h"

namespace lockstep::runtime {
namespace {

// The tensors of a unit, in its order.
struct UnitModule : torch::nn::Module {
  explicit UnitModule(const Unit& unit) {
    for (const UnitTensor& tensor : unit.tensors) {
      const std::string name = "p" + std::to_string(tensors.size());
      tensors.push_back(register_parameter(name, at::ones(tensor.shape)));
    }
  }
  std::vector<at::Tensor> in_double() const {
    std::vector<at::Tensor> wide;
    for (const at::Tensor& tensor : tensors) wide.push_back(tensor.to(at::kDouble));
    return wide;
  }
  std::vector<at::Tensor> tensors;
};

class AutogradBlockTest : public testing::Test {
 protected:
  const TestModel model_ = odd_model();
  const common::ModelConfig config_ = model_.config;
  const BatchShape shape_ = model_.shape;
  const size_t stream_elems_ = static_cast<size_t>(shape_.rows() * config_.hidden_size);
  const std::vector<int32_t> tokens_ = random_tokens(shape_.rows(), config_.vocab_size, 11);
  const std::vector<int32_t> labels_ = random_tokens(shape_.rows(), config_.vocab_size, 12);
  const std::vector<int32_t> positions_ = positions_of(model_);
  const std::vector<float> rotary_ = rotary_values(config_, shape_.seq, false);

  MicroBatchIo io() const {
    return {.tokens = tokens_.data(),
            .labels = labels_.data(),
            .positions = positions_.data(),
            .loss_scale = 1.0F / static_cast<float>(shape_.rows())};
  }

  // batch: {tokens, labels, positions}
  AutogradBlock layer() const {
    const auto module = std::make_shared<UnitModule>(layer_unit(config_, 0));
    return {{"layer", module,
             [module, config = config_](const at::Tensor& x, const TensorBatch& batch) {
               return reference::decoder_layer(config, 0, module->in_double(), x.to(at::kDouble),
                                               batch.at(2))
                   .to(at::kFloat);
             }},
            {.in_channels = config_.hidden_size, .out_channels = config_.hidden_size}};
  }
  AutogradBlock head() const {
    const auto module = std::make_shared<UnitModule>(head_unit(config_));
    return {{"head", module,
             [module, config = config_](const at::Tensor& x, const TensorBatch& batch) {
               return reference::head_loss(config, module->in_double(), x.to(at::kDouble),
                                           batch.at(1).reshape({-1}));
             }},
            {.in_channels = config_.hidden_size}};
  }

  // Forward and backward of blocks one after the other, as Decoder walks them.
  struct Pass {
    std::vector<std::vector<float>> y, gradients;
    double loss_sum = 0;
  };
  Pass run(const std::vector<const Block*>& blocks, const std::vector<std::vector<float>>& params,
           MicroBatchIo micro) const {
    Pass pass;
    std::vector<std::vector<float>> kept;
    for (size_t i = 0; i < blocks.size(); ++i) {
      const SavedElems saved = blocks[i]->saved_elems(shape_);
      for (const int64_t elems : {saved.dear, saved.cheap, blocks[i]->scratch_elems(shape_)}) {
        kept.emplace_back(static_cast<size_t>(elems));
      }
      pass.y.emplace_back(stream_elems_);
      pass.gradients.emplace_back(params[i].size(), NAN);
    }
    std::vector<float> dx(stream_elems_);
    const auto buffers = [&](size_t i) {
      return BlockBuffers{.x = i == 0 ? nullptr : pass.y[i - 1].data(),
                          .y = pass.y[i].data(),
                          .dy = dx.data(),
                          .dx = i == 0 ? nullptr : dx.data(),
                          .dear = kept[3 * i].data(),
                          .cheap = kept[3 * i + 1].data(),
                          .scratch = kept[3 * i + 2].data()};
    };
    for (size_t i = 0; i < blocks.size(); ++i) {
      blocks[i]->forward(shape_, params[i].data(), micro, buffers(i));
    }
    for (size_t i = blocks.size(); i-- > 0;) {
      blocks[i]->backward(shape_, params[i].data(), micro, buffers(i), pass.gradients[i].data());
    }
    pass.loss_sum = micro.loss_sum;
    return pass;
  }
};

void expect_close(const std::vector<float>& actual, const std::vector<float>& expected) {
  ASSERT_EQ(actual.size(), expected.size());
  double worst = 0;
  double largest = 0;
  for (size_t i = 0; i < actual.size(); ++i) {
    worst = std::max(worst, std::abs(static_cast<double>(actual[i]) - expected[i]));
    largest = std::max(largest, std::abs(static_cast<double>(expected[i])));
    ASSERT_FALSE(std::isnan(actual[i]));
  }
  EXPECT_LT(worst, 1e-5 * largest);
}

TEST_F(AutogradBlockTest, StandsInForHandWrittenBlocksAndTrainsAsTheyDo) {
  const Embedding embedding(config_);
  const DecoderLayer hand_layer(config_, 0, rotary_);
  const Head hand_head(config_);
  const AutogradBlock own_layer = layer();
  const AutogradBlock own_head = head();
  ASSERT_EQ(own_layer.unit().num_elems, hand_layer.unit().num_elems);
  std::vector<std::vector<float>> params = {random_unit(embedding.unit(), 1),
                                            random_unit(hand_layer.unit(), 50),
                                            random_unit(hand_head.unit(), 90)};
  std::vector<std::vector<float>> other = params;
  std::vector<double> losses;
  for (int step = 0; step < 6; ++step) {
    const Pass hand = run({&embedding, &hand_layer, &hand_head}, params, io());
    const Pass own = run({&embedding, &own_layer, &own_head}, other, io());
    EXPECT_NEAR(own.loss_sum, hand.loss_sum, 1e-5 * hand.loss_sum);
    for (size_t i = 0; step == 0 && i < 2; ++i) expect_close(own.y[i], hand.y[i]);
    for (size_t i = 0; i < params.size(); ++i) {
      if (step == 0) expect_close(own.gradients[i], hand.gradients[i]);
      for (size_t j = 0; j < params[i].size(); ++j) {
        params[i][j] -= 0.3F * hand.gradients[i][j];
        other[i][j] -= 0.3F * own.gradients[i][j];
      }
    }
    losses.push_back(own.loss_sum);
  }
  EXPECT_LT(losses.back(), 0.9 * losses.front());
}

TEST_F(AutogradBlockTest, AWrongShapeIsRefusedByName) {
  const AutogradBlock block(
      {"wide", nullptr,
       [](const at::Tensor& x, const TensorBatch&) {
         return at::cat({x, x}, 2);
       }},
      {.in_channels = config_.hidden_size, .out_channels = config_.hidden_size});
  std::vector<float> x(stream_elems_);
  std::vector<float> y(stream_elems_);
  MicroBatchIo micro = io();
  try {
    block.forward(shape_, {}, micro, {.x = x.data(), .y = y.data()});
    FAIL() << "did not throw";
  } catch (const RunError& error) {
    EXPECT_EQ(error.failure().message, "block 'wide' must return [2, 37, 48], found [2, 37, 96]");
  }
}

}  // namespace
}  // namespace lockstep::runtime

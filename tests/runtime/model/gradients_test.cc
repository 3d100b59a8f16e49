// Every gradient of our backward against autograd in float64 on the same weights: those that the
// block was given, so in bf16 and fp16 the rounded ones. Bounds, of a tensor's largest element:
// fp32 1e-5, the rounding of fp32 through a few hundred additions; bf16 2e-2 and fp16 3e-3, a few
// roundings of 2^-9 and 2^-12 one after the other, and three times as much through a whole model.
#include <cmath>
#include <cstring>

#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include "runtime/common/model_family.h"
#include "runtime/model/decoder_layer.h"
#include "runtime/model/embedding.h"
#include "runtime/model/head.h"
#include "runtime/model/layer_shapes.h"
#include "runtime/model/rotary.h"
#include "tests/runtime/model/reference.h"
#include "tests/runtime/model/test_models.h"

namespace lockstep::runtime {
namespace {

constexpr int64_t kLayer = 0;  // of which the tests of one layer are

double bound_of(DType dtype) {
  return dtype == DType::kFp32 ? 1e-5 : dtype == DType::kBf16 ? 2e-2 : 3e-3;
}

class GradientsTest : public testing::TestWithParam<TestModel> {
 protected:
  const common::ModelConfig config_ = GetParam().config;
  const BatchShape shape_ = GetParam().shape;
  const DType dtype_ = GetParam().dtype;
  double bound_ = bound_of(dtype_);
  // Of a loss, which is a mean over many tokens.
  const double loss_bound_ = dtype_ == DType::kFp32 ? 1e-6 : bound_ / 10;
  const int64_t rows_ = shape_.rows();
  const std::vector<int32_t> tokens_ = random_tokens(rows_, config_.vocab_size, 11);
  // Two thirds of the positions have a loss.
  const std::vector<int32_t> labels_ = [this] {
    std::vector<int32_t> labels = random_tokens(rows_, config_.vocab_size, 12);
    for (size_t i = 1; i < labels.size(); i += 3) labels[i] = -100;
    return labels;
  }();
  const std::vector<int32_t> positions_ = positions_of(GetParam());
  double worst_ = 0;

  // As the trainer gives it: none where every sequence is one document.
  MicroBatchIo io() const {
    return {.tokens = tokens_.data(),
            .labels = labels_.data(),
            .positions = GetParam().document_rows > 0 ? positions_.data() : nullptr,
            .loss_scale = 1.0f / 64};
  }
  at::Tensor positions() const { return to_long(positions_, {shape_.batch, shape_.seq}); }

  void TearDown() override { printf("  %s: worst error %.2e\n", GetParam().name.c_str(), worst_); }

  std::vector<int64_t> hidden_shape() const {
    return {shape_.batch, shape_.seq, config_.hidden_size};
  }

  static at::Tensor to_long(const std::vector<int32_t>& values, at::IntArrayRef shape) {
    return at::from_blob(const_cast<int32_t*>(values.data()), shape, at::kInt).to(at::kLong);
  }

  void expect_close(const std::string& name, std::span<const float> actual,
                    const at::Tensor& expected) {
    const double error = reference::relative_error(actual, expected);
    worst_ = std::max(worst_, error);
    EXPECT_LT(error, bound_) << name;
    EXPECT_FALSE(std::isnan(error)) << name;
  }

  void expect_gradients_close(const Unit& unit, std::span<const float> gradients,
                              std::span<const at::Tensor> expected) {
    for (size_t i = 0; i < unit.tensors.size(); ++i) {
      const UnitTensor& tensor = unit.tensors[i];
      const auto part = gradients.subspan(static_cast<size_t>(tensor.begin_elem),
                                          static_cast<size_t>(tensor.num_elems));
      expect_close(tensor.name, part, expected[i]);
    }
  }

  struct BlockRun {
    std::vector<float> y, dx, gradients;
    std::vector<float> cheap;  // as BlockBuffers has it
    double loss_sum = 0;
  };

  // Forward and backward of one block, dx in place of dy as the decoder does it.
  BlockRun run(const Block& block, const TypedParams& params, const std::vector<float>& x,
               const std::vector<float>& dy) const {
    const float nan = std::nanf("");
    const auto hidden_elems = static_cast<size_t>(rows_ * config_.hidden_size);
    BlockRun out = {.y = std::vector<float>(hidden_elems, nan),
                    .dx = dy.empty() ? std::vector<float>(hidden_elems, nan) : dy,
                    .gradients = std::vector<float>(params.floats().size(), nan)};
    std::vector<float> dear(static_cast<size_t>(block.saved_elems(shape_).dear), nan);
    std::vector<float> cheap(static_cast<size_t>(block.saved_elems(shape_).cheap), nan);
    std::vector<float> scratch(static_cast<size_t>(block.scratch_elems(shape_)), nan);
    MicroBatchIo in_out = io();
    const BlockBuffers buffers = {.x = x.data(),
                                  .y = out.y.data(),
                                  .dy = out.dx.data(),
                                  .dx = out.dx.data(),
                                  .dear = dear.data(),
                                  .cheap = cheap.data(),
                                  .scratch = scratch.data()};
    block.forward(shape_, params.values(), in_out, buffers);
    std::fill(scratch.begin(), scratch.end(), nan);
    block.backward(shape_, params.values(), in_out, buffers, out.gradients.data());
    out.loss_sum = in_out.loss_sum;
    out.cheap = std::move(cheap);
    return out;
  }

  // The experts that our tokens took. In 16 bits two of almost the same probability may change
  // places by rounding, and the other one's gradient is no error of the backward: the truth is then
  // that of our choice. In fp32 undefined: the truth chooses too.
  at::Tensor choices_of(const BlockRun& ours) const {
    if (!config_.has_experts() || dtype_ == DType::kFp32) return {};
    std::vector<int32_t> choices(static_cast<size_t>(rows_ * config_.experts_per_token));
    std::memcpy(choices.data(),
                ours.cheap.data() + layout_of(config_, shape_, dtype_).cheap.choices,
                choices.size() * sizeof(int32_t));
    return to_long(choices, {rows_, config_.experts_per_token});
  }
};

TEST_P(GradientsTest, EmbeddingMatchesAutograd) {
  const Embedding block(config_);
  const TypedParams params(dtype_, random_unit(block.unit(), 1));
  const std::vector<float> dy = random_floats(rows_ * config_.hidden_size, 2, 1.0f);
  const BlockRun ours = run(block, params, {}, dy);

  const std::vector<at::Tensor> weights = reference::leaves(block.unit(), params.floats());
  const at::Tensor y = reference::embedding(
      config_, weights, to_long(tokens_, {shape_.batch, shape_.seq}), positions());
  const auto expected =
      torch::autograd::grad({y}, weights, {reference::to_tensor(dy, hidden_shape())});
  expect_close("y", ours.y, y);
  expect_gradients_close(block.unit(), ours.gradients, expected);
}

TEST_P(GradientsTest, DecoderLayerMatchesAutograd) {
  std::vector<float> table;
  if (!common::family_of(config_).has_learned_positions) {
    table = rotary_values(config_, shape_.seq, config_.window_of(kLayer) > 0);
  }
  const DecoderLayer block(config_, kLayer, table, dtype_);
  const TypedParams params(dtype_, random_unit(block.unit(), 1));
  const std::vector<float> x = random_floats(rows_ * config_.hidden_size, 2, 1.0f);
  const std::vector<float> dy = random_floats(rows_ * config_.hidden_size, 3, 1.0f);
  const BlockRun ours = run(block, params, x, dy);

  const std::vector<at::Tensor> weights = reference::leaves(block.unit(), params.floats());
  const at::Tensor x_leaf = reference::to_tensor(x, hidden_shape()).requires_grad_();
  const at::Tensor y =
      reference::decoder_layer(config_, kLayer, weights, x_leaf, positions(), choices_of(ours));
  std::vector<at::Tensor> inputs = weights;
  inputs.push_back(x_leaf);
  const auto expected =
      torch::autograd::grad({y}, inputs, {reference::to_tensor(dy, hidden_shape())});
  expect_close("y", ours.y, y);
  expect_close("dx", ours.dx, expected.back());
  expect_gradients_close(block.unit(), ours.gradients, expected);
}

TEST_P(GradientsTest, HeadMatchesAutograd) {
  const Head block(config_, dtype_);
  const TypedParams params(dtype_, random_unit(block.unit(), 1));
  const std::vector<float> x = random_floats(rows_ * config_.hidden_size, 2, 1.0f);
  const BlockRun ours = run(block, params, x, {});

  const std::vector<at::Tensor> weights = reference::leaves(block.unit(), params.floats());
  const at::Tensor x_leaf = reference::to_tensor(x, hidden_shape()).requires_grad_();
  const at::Tensor loss_sum =
      reference::head_loss(config_, weights, x_leaf, to_long(labels_, {rows_}));
  std::vector<at::Tensor> inputs = weights;
  inputs.push_back(x_leaf);
  const auto expected = torch::autograd::grad({loss_sum / 64}, inputs);
  EXPECT_NEAR(ours.loss_sum, loss_sum.item<double>(), loss_bound_ * loss_sum.item<double>());
  expect_close("dx", ours.dx, expected.back());
  expect_gradients_close(block.unit(), ours.gradients, expected);
}

// Also of models whose blocks cannot stand alone.
class WholeModelTest : public GradientsTest {};

TEST_P(WholeModelTest, MatchesAutograd) {
  if (dtype_ != DType::kFp32) bound_ *= 3;
  Decoder decoder(config_, shape_, common::ActivationCheckpointing::kNone, dtype_);
  const UnitBuffers params = random_params(config_, 21);
  const PassResult ours = run_pass(decoder, params, io(), dtype_);

  std::vector<std::vector<at::Tensor>> weights;
  std::vector<at::Tensor> inputs;
  for (int64_t i = 0; i < decoder.num_blocks(); ++i) {
    weights.push_back(reference::leaves(
        decoder.unit(i), TypedParams(dtype_, params[static_cast<size_t>(i)]).floats()));
    inputs.insert(inputs.end(), weights.back().begin(), weights.back().end());
  }
  at::Tensor x = reference::embedding(config_, weights[0],
                                      to_long(tokens_, {shape_.batch, shape_.seq}), positions());
  for (size_t i = 1; i + 1 < weights.size(); ++i) {
    x = reference::decoder_layer(config_, static_cast<int64_t>(i) - 1, weights[i], x, positions());
  }
  std::vector<at::Tensor> head = weights.back();
  if (config_.tie_word_embeddings) head.push_back(weights.front()[0]);
  const at::Tensor loss_sum = reference::head_loss(config_, head, x, to_long(labels_, {rows_}));
  const auto expected = torch::autograd::grad({loss_sum / 64}, inputs);

  EXPECT_NEAR(ours.loss_sum, loss_sum.item<double>(), loss_bound_ * loss_sum.item<double>());
  size_t first = 0;
  for (int64_t i = 0; i < decoder.num_blocks(); ++i) {
    const Unit& unit = decoder.unit(i);
    expect_gradients_close(unit, ours.gradients[static_cast<size_t>(i)],
                           std::span(expected).subspan(first, unit.tensors.size()));
    first += unit.tensors.size();
  }
}

INSTANTIATE_TEST_SUITE_P(Models, GradientsTest,
                         testing::Values(odd_model(), packed_model(), wide_head_model(),
                                         single_token_model(), large_vocabulary_model(),
                                         computed_in(DType::kBf16, odd_model()),
                                         computed_in(DType::kBf16, packed_model()),
                                         computed_in(DType::kBf16, wide_head_model()),
                                         computed_in(DType::kBf16, large_vocabulary_model()),
                                         computed_in(DType::kFp16, odd_model()),
                                         computed_in(DType::kFp16, wide_head_model())),
                         [](const auto& model) { return model.param.name; });
INSTANTIATE_TEST_SUITE_P(Models, WholeModelTest,
                         testing::Values(odd_model(), tied_model(), packed_model(),
                                         wide_head_model(), single_token_model(),
                                         large_vocabulary_model(),
                                         computed_in(DType::kBf16, odd_model()),
                                         computed_in(DType::kBf16, tied_model()),
                                         computed_in(DType::kBf16, packed_model()),
                                         computed_in(DType::kFp16, wide_head_model())),
                         [](const auto& model) { return model.param.name; });

// With heads of their own, so that every block can stand alone.
std::vector<TestModel> families_with(DType dtype) {
  std::vector<TestModel> models;
  for (TestModel& model : family_models()) {
    model.config.tie_word_embeddings = false;
    model.document_rows = dtype == DType::kFp32 ? 23 : 0;
    models.push_back(dtype == DType::kFp32 ? model : computed_in(dtype, model));
  }
  return models;
}

INSTANTIATE_TEST_SUITE_P(Families, GradientsTest, testing::ValuesIn(families_with(DType::kFp32)),
                         [](const auto& model) { return model.param.name; });
INSTANTIATE_TEST_SUITE_P(Bf16Families, GradientsTest,
                         testing::ValuesIn(families_with(DType::kBf16)),
                         [](const auto& model) { return model.param.name; });
INSTANTIATE_TEST_SUITE_P(Families, WholeModelTest, testing::ValuesIn(family_models()),
                         [](const auto& model) { return model.param.name; });

}  // namespace
}  // namespace lockstep::runtime

// The heads of reward models and of distillation against autograd in float64. Bounds, of a tensor's
// largest element: those of gradients_test.
#include <cmath>

#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include "runtime/model/head.h"
#include "runtime/model/score_head.h"
#include "tests/runtime/model/reference.h"
#include "tests/runtime/model/test_models.h"

namespace lockstep::runtime {
namespace {

constexpr float kScale = 1.0F / 64;

double bound_of(DType dtype) {
  return dtype == DType::kFp32 ? 1e-5 : dtype == DType::kBf16 ? 2e-2 : 3e-3;
}

class ObjectivesGradientsTest : public testing::TestWithParam<TestModel> {
 protected:
  // Runs the head on random input and holds its gradients against those of `expected_loss`.
  //   expected_loss: of the weights and x, both leaves.
  template <typename Loss>
  void check(const Block& block, MicroBatchIo io, const Loss& expected_loss) {
    const common::ModelConfig& config = GetParam().config;
    const BatchShape shape = GetParam().shape;
    const DType dtype = GetParam().dtype;
    const float nan = std::nanf("");
    const TypedParams params(dtype, random_unit(block.unit(), 3));
    const std::vector<float> x = random_floats(shape.rows() * config.hidden_size, 4, 1);
    std::vector<float> dx(x.size(), nan);
    std::vector<float> gradients(params.floats().size(), nan);
    std::vector<float> scratch(static_cast<size_t>(block.scratch_elems(shape)), nan);
    const BlockBuffers buffers = {.x = x.data(), .dx = dx.data(), .scratch = scratch.data()};
    block.forward(shape, params.values(), io, buffers);
    const double loss_of_forward = io.loss_sum;
    std::fill(scratch.begin(), scratch.end(), nan);
    block.backward(shape, params.values(), io, buffers, gradients.data());

    const auto weights = reference::leaves(block.unit(), params.floats());
    const at::Tensor leaf =
        reference::to_tensor(x, {shape.batch, shape.seq, config.hidden_size}).requires_grad_();
    const at::Tensor loss = expected_loss(weights, leaf);
    std::vector<at::Tensor> inputs = weights;
    inputs.push_back(leaf);
    const auto expected = torch::autograd::grad({loss * kScale}, inputs);
    const double bound = bound_of(dtype);
    EXPECT_EQ(loss_of_forward, io.loss_sum);
    EXPECT_NEAR(io.loss_sum, loss.item<double>(),
                (dtype == DType::kFp32 ? 1e-5 : bound) * std::abs(loss.item<double>()));
    EXPECT_LT(reference::relative_error(dx, expected.back()), bound);
    for (size_t i = 0; i < block.unit().tensors.size(); ++i) {
      const UnitTensor& tensor = block.unit().tensors[i];
      const auto part = std::span(gradients).subspan(static_cast<size_t>(tensor.begin_elem),
                                                     static_cast<size_t>(tensor.num_elems));
      EXPECT_LT(reference::relative_error(part, expected[i]), bound) << tensor.name;
    }
  }

  static at::Tensor to_long(const std::vector<int32_t>& values) {
    return at::tensor(std::vector<int64_t>(values.begin(), values.end()), at::kLong);
  }
};

// The loss is a sum of squares about 1, so that every score has a gradient of its own.
TEST_P(ObjectivesGradientsTest, ScoresMatchAutograd) {
  common::ModelConfig config = GetParam().config;
  config.has_score = true;
  config.tie_word_embeddings = false;
  const BatchShape shape = GetParam().shape;
  std::vector<int64_t> ends;  // a row inside of every sequence, and all that is behind
  for (int64_t i = 0; i < shape.batch; ++i) ends.push_back(i * shape.seq + (shape.seq + 1) / 2);
  if (ends.back() < shape.rows()) ends.push_back(shape.rows());
  const SpanLoss loss = {.ends = ends,
                         .weigh = [](std::span<const double> scores, std::span<double> weights) {
                           double sum = 0;
                           for (size_t i = 0; i < scores.size(); ++i) {
                             weights[i] = 2 * (scores[i] - 1);
                             sum += (scores[i] - 1) * (scores[i] - 1);
                           }
                           return sum;
                         }};
  std::vector<int64_t> rows;
  for (const int64_t end : ends) rows.push_back(end - 1);
  check(ScoreHead(config, GetParam().dtype), {.loss_scale = kScale, .span_loss = &loss},
        [&](const std::vector<at::Tensor>& weights, const at::Tensor& x) {
          const at::Tensor scores =
              reference::scores(config, weights, x, at::tensor(rows, at::kLong));
          return (scores - 1).pow(2).sum();
        });
}

// Also where the logits of a chunk are not those of all rows.
TEST_P(ObjectivesGradientsTest, WhatATeacherSaysMatchesAutograd) {
  common::ModelConfig config = GetParam().config;
  config.tie_word_embeddings = false;
  const int64_t rows = GetParam().shape.rows();
  std::vector<int32_t> labels = random_tokens(rows, config.vocab_size, 12);
  for (size_t i = 1; i < labels.size(); i += 3) labels[i] = -100;
  const std::vector<float> told = random_floats(rows * config.vocab_size, 5, 2);
  std::vector<float> chunk;
  const Distillation distillation = {.factors = {.alpha = 0.75F, .temperature = 2.5F},
                                     .logits = [&](int64_t begin_row, int64_t num_rows) {
                                       const auto begin =
                                           told.begin() + begin_row * config.vocab_size;
                                       chunk.assign(begin, begin + num_rows * config.vocab_size);
                                       return chunk.data();
                                     }};
  check(Head(config, GetParam().dtype),
        {.labels = labels.data(), .loss_scale = kScale, .distillation = &distillation},
        [&](const std::vector<at::Tensor>& weights, const at::Tensor& x) {
          return reference::distilled_loss(config, weights, x, to_long(labels),
                                           reference::to_tensor(told, {rows, config.vocab_size}),
                                           0.75, 2.5);
        });
}

// The last has LayerNorm, the one before a soft-cap of logits.
INSTANTIATE_TEST_SUITE_P(
    Models, ObjectivesGradientsTest,
    testing::Values(odd_model(), single_token_model(), large_vocabulary_model(),
                    computed_in(DType::kBf16, odd_model()), computed_in(DType::kFp16, odd_model()),
                    family_model("granite", {{"logits_scaling", 1.7}}), family_model("gemma2"),
                    family_model("gpt2", {{"num_key_value_heads", 6}})),
    [](const auto& model) { return model.param.name; });

TEST(ScoreHeadTest, WantsToBeToldWhichRowsToScore) {
  common::ModelConfig config = odd_model().config;
  config.has_score = true;
  const ScoreHead head(config);
  MicroBatchIo io;
  EXPECT_THROW(head.forward({.batch = 1, .seq = 2}, {}, io, {}), std::invalid_argument);
  const SpanLoss loss = {.ends = {1, 2, 3}, .weigh = {}};
  io.span_loss = &loss;
  EXPECT_THROW(head.forward({.batch = 1, .seq = 3}, {}, io, {}), std::invalid_argument);
}

}  // namespace
}  // namespace lockstep::runtime

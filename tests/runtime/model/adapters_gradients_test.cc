// Gradients of adapters against autograd in float64, through whole layers of every family: a layer
// with adapters is the layer whose weights are W + s B A. Bounds: fp32 as in gradients_test.cc; in
// 16 bits three times those, for what is between A and B, and its gradient, are rounded too.
#include <cmath>

#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include "runtime/common/model_family.h"
#include "runtime/model/decoder_layer.h"
#include "runtime/model/rotary.h"
#include "tests/runtime/model/reference.h"
#include "tests/runtime/model/test_models.h"

namespace lockstep::runtime {
namespace {

constexpr int64_t kLayer = 1;

struct AdaptedModel {
  TestModel model;
  common::LoraConfig lora;
};

void PrintTo(const AdaptedModel& adapted, std::ostream* out) {
  *out << adapted.model.name;
}

class AdapterGradientsTest : public testing::TestWithParam<AdaptedModel> {
 protected:
  const common::ModelConfig config_ = GetParam().model.config;
  const common::LoraConfig lora_ = GetParam().lora;
  const BatchShape shape_ = GetParam().model.shape;
  const DType dtype_ = GetParam().model.dtype;
  const int64_t rows_ = shape_.rows();
  const std::vector<int32_t> positions_ = positions_of(GetParam().model);

  struct LayerRun {
    std::vector<float> y, dx, gradients;
  };

  LayerRun run(const DecoderLayer& layer, const TypedParams& params, const TypedParams& adapters,
               const std::vector<float>& x, const std::vector<float>& dy) const {
    const float nan = std::nanf("");
    LayerRun out = {.y = std::vector<float>(x.size(), nan),
                    .dx = dy,
                    .gradients = std::vector<float>(adapters.floats().size(), nan)};
    std::vector<float> dear(static_cast<size_t>(layer.saved_elems(shape_).dear), nan);
    std::vector<float> cheap(static_cast<size_t>(layer.saved_elems(shape_).cheap), nan);
    std::vector<float> scratch(static_cast<size_t>(layer.scratch_elems(shape_)), nan);
    MicroBatchIo io;
    const BlockBuffers buffers = {.x = x.data(),
                                  .y = out.y.data(),
                                  .dy = out.dx.data(),
                                  .dx = out.dx.data(),
                                  .dear = dear.data(),
                                  .cheap = cheap.data(),
                                  .scratch = scratch.data(),
                                  .adapters = adapters.values(),
                                  .adapter_gradients = out.gradients.data()};
    layer.forward(shape_, params.values(), io, buffers);
    std::fill(scratch.begin(), scratch.end(), nan);
    layer.backward(shape_, params.values(), io, buffers, /*gradients=*/nullptr);
    return out;
  }

  // The layer's weights with what the adapters add to them.
  std::vector<at::Tensor> adapted_weights(const Unit& unit, const std::vector<float>& flat,
                                          const std::vector<at::Tensor>& adapters) const {
    std::vector<at::Tensor> weights = reference::leaves(unit, flat);
    const bool is_in_by_out = common::family_of(config_).naming == common::Naming::kGpt2;
    size_t next = 0;
    for (const common::LinearModule& module : adapted_modules(config_, lora_, kLayer)) {
      const at::Tensor delta = at::matmul(adapters.at(next + 1), adapters.at(next)) * lora_.scale();
      next += 2;
      for (size_t i = 0; i < weights.size(); ++i) {
        if (unit.tensors[i].name != module.path + ".weight") continue;
        weights[i] = weights[i] + (is_in_by_out ? delta.t() : delta);
      }
    }
    return weights;
  }
};

TEST_P(AdapterGradientsTest, OfAandBAndTheInputMatchAutograd) {
  std::vector<float> table;
  if (!common::family_of(config_).has_learned_positions) {
    table = rotary_values(config_, shape_.seq, config_.window_of(kLayer) > 0);
  }
  const DecoderLayer layer(config_, kLayer, table, dtype_, lora_);
  const TypedParams params(dtype_, random_unit(layer.unit(), 1));
  const TypedParams adapters(dtype_, random_unit(layer.adapter_unit(), 50));
  const std::vector<float> x = random_floats(rows_ * config_.hidden_size, 2, 1.0f);
  const std::vector<float> dy = random_floats(rows_ * config_.hidden_size, 3, 1.0f);
  const LayerRun ours = run(layer, params, adapters, x, dy);

  const std::vector<int64_t> hidden_shape = {shape_.batch, shape_.seq, config_.hidden_size};
  const std::vector<at::Tensor> leaves = reference::leaves(layer.adapter_unit(), adapters.floats());
  const at::Tensor x_leaf = reference::to_tensor(x, hidden_shape).requires_grad_();
  const at::Tensor places =
      at::from_blob(const_cast<int32_t*>(positions_.data()), {shape_.batch, shape_.seq}, at::kInt)
          .to(at::kLong);
  const at::Tensor y = reference::decoder_layer(
      config_, kLayer, adapted_weights(layer.unit(), params.floats(), leaves), x_leaf, places);
  std::vector<at::Tensor> inputs = leaves;
  inputs.push_back(x_leaf);
  const auto expected =
      torch::autograd::grad({y}, inputs, {reference::to_tensor(dy, hidden_shape)});

  const double bound = dtype_ == DType::kFp32 ? 1e-5 : dtype_ == DType::kBf16 ? 6e-2 : 8e-3;
  double worst = reference::relative_error(ours.y, y);
  worst = std::max(worst, reference::relative_error(ours.dx, expected.back()));
  EXPECT_LT(worst, bound);
  const Unit& unit = layer.adapter_unit();
  ASSERT_EQ(unit.tensors.size(), leaves.size());
  ASSERT_GT(leaves.size(), 0U);
  for (size_t i = 0; i < leaves.size(); ++i) {
    const UnitTensor& tensor = unit.tensors[i];
    const auto part =
        std::span(ours.gradients)
            .subspan(static_cast<size_t>(tensor.begin_elem), static_cast<size_t>(tensor.num_elems));
    const double error = reference::relative_error(part, expected[i]);
    EXPECT_LT(error, bound) << tensor.name;
    EXPECT_FALSE(std::isnan(error)) << tensor.name;
    worst = std::max(worst, error);
  }
  printf("  %s: worst error %.2e\n", GetParam().model.name.c_str(), worst);
}

std::vector<AdaptedModel> models_with(DType dtype, const std::vector<std::string>& targets) {
  std::vector<AdaptedModel> models;
  std::vector<TestModel> of_families = family_models();
  of_families.push_back(odd_model());
  for (const TestModel& model : of_families) {
    // Expert choices may differ by rounding, see gradients_test.cc; these have no adapters anyway.
    if (dtype != DType::kFp32 && model.config.has_experts()) continue;
    AdaptedModel adapted{.model = dtype == DType::kFp32 ? model : computed_in(dtype, model),
                         .lora = {.rank = 3, .alpha = 5, .targets = targets}};
    adapted.lora.use_rslora = model.name == "odd";
    models.push_back(adapted);
  }
  return models;
}

std::string name_of(const testing::TestParamInfo<AdaptedModel>& info) {
  return info.param.model.name;
}

INSTANTIATE_TEST_SUITE_P(Fp32, AdapterGradientsTest,
                         testing::ValuesIn(models_with(DType::kFp32, {"all-linear"})), name_of);
INSTANTIATE_TEST_SUITE_P(Bf16, AdapterGradientsTest,
                         testing::ValuesIn(models_with(DType::kBf16, {"all-linear"})), name_of);
INSTANTIATE_TEST_SUITE_P(Fp16, AdapterGradientsTest,
                         testing::ValuesIn(models_with(DType::kFp16, {"all-linear"})), name_of);
// A part of a product, and one of two modules of the same word.
INSTANTIATE_TEST_SUITE_P(
    Some, AdapterGradientsTest,
    testing::Values(AdaptedModel{.model = odd_model(),
                                 .lora = {.rank = 2, .alpha = 2, .targets = {"v_proj", "up_proj"}}},
                    AdaptedModel{.model = family_model("gpt2", {{"num_key_value_heads", 6}}),
                                 .lora = {.rank = 2, .alpha = 2, .targets = {"mlp.c_proj"}}}),
    name_of);

}  // namespace
}  // namespace lockstep::runtime

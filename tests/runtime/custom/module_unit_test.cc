#include "runtime/custom/module_unit.h"

#include <ostream>

#include <ATen/CPUGeneratorImpl.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/dropout.h>

#include "runtime/train/run_error.h"
#include "tests/runtime/custom/byte_model.h"

namespace lockstep::runtime {
namespace {

using torch::nn::Linear;

std::string refusal_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const RunError& error) {
    EXPECT_EQ(error.failure().code, common::ExitCode::kInvalidConfig);
    EXPECT_FALSE(error.failure().hint.empty());
    return error.failure().message;
  }
  return "nothing was refused";
}

const TensorBatch kNoBatch;

// y = f(linear(x)) on a linear map of 3 to 2.
struct Mapped {
  explicit Mapped(BlockFunction f = nullptr, DType dtype = DType::kFp32)
      : linear(3, 2),
        weight(linear->weight.detach().clone()),
        bias(linear->bias.detach().clone()),
        unit({"map", linear.ptr(),
              [l = linear, f](const at::Tensor& x, const TensorBatch& batch) mutable {
                return f ? f(x, batch) : l(x);
              }},
             dtype),
        params(unit.take_first_weights()) {}

  ModuleUnit::Call call() const { return {params.data(), kNoBatch, {}}; }

  Linear linear;
  at::Tensor weight, bias;
  ModuleUnit unit;
  std::vector<float> params;
};

at::Tensor input() {
  return at::arange(12, at::kFloat).reshape({4, 3}) / 7;
}

TEST(ModuleUnitTest, TakesTheParametersInOrderAndLeavesNone) {
  const Mapped mapped;
  ASSERT_EQ(mapped.unit.unit().tensors.size(), 2u);
  EXPECT_EQ(mapped.unit.unit().tensors[0].name, "map.weight");
  EXPECT_EQ(mapped.unit.unit().tensors[0].shape, (std::vector<int64_t>{2, 3}));
  EXPECT_EQ(mapped.unit.unit().tensors[1].name, "map.bias");
  EXPECT_EQ(mapped.unit.unit().tensors[1].begin_elem, 6);
  EXPECT_EQ(mapped.unit.unit().num_elems, 8);
  EXPECT_EQ(mapped.params[4], mapped.weight.view(-1)[4].item<float>());
  EXPECT_EQ(mapped.linear->weight.numel(), 0);
}

TEST(ModuleUnitTest, ForwardAndBackwardAreThoseOfAutogradToTheBit) {
  const Mapped mapped;
  const at::Tensor x = input();
  const at::Tensor y = mapped.unit.forward(mapped.call(), x);
  EXPECT_FALSE(y.requires_grad());
  EXPECT_EQ(mapped.linear->weight.numel(), 0) << "still borrowed";
  const at::Tensor dy = at::ones_like(y) * 0.3;
  std::vector<float> gradients(8, NAN);
  const auto result = mapped.unit.backward(mapped.call(), x, dy, 1, gradients.data(), true);

  const at::Tensor leaf = x.clone().requires_grad_();
  const at::Tensor weight = mapped.weight.clone().requires_grad_();
  const at::Tensor bias = mapped.bias.clone().requires_grad_();
  const at::Tensor expected = at::linear(leaf, weight, bias);
  const auto wanted = torch::autograd::grad({expected}, {weight, bias, leaf}, {dy});
  EXPECT_TRUE(at::equal(y, expected));
  EXPECT_TRUE(at::equal(result.dx, wanted[2]));
  EXPECT_TRUE(at::equal(at::from_blob(gradients.data(), {2, 3}), wanted[0]));
  EXPECT_TRUE(at::equal(at::from_blob(gradients.data() + 6, {2}), wanted[1]));
}

TEST(ModuleUnitTest, WhatTheFunctionDoesNotUseHasZeroGradients) {
  const Mapped mapped([](const at::Tensor& x, const TensorBatch&) { return x * 2; });
  std::vector<float> gradients(8, NAN);
  const auto result = mapped.unit.backward(mapped.call(), input(), at::ones({4, 3}), 1,
                                           gradients.data(), /*wants_dx=*/true);
  EXPECT_EQ(gradients, std::vector<float>(8, 0));
  EXPECT_TRUE(at::equal(result.dx, at::full({4, 3}, 2.0F)));
}

TEST(ModuleUnitTest, ComputesInBf16WithoutACopyOfTheWeights) {
  const Mapped mapped(nullptr, DType::kBf16);
  const at::Tensor rounded =
      at::from_blob(const_cast<float*>(mapped.params.data()), {8}).to(at::kBFloat16);
  const ModuleUnit::Call call{{DType::kBf16, rounded.const_data_ptr()}, kNoBatch, {}};
  const at::Tensor y = mapped.unit.forward(call, input());
  EXPECT_EQ(y.scalar_type(), at::kBFloat16);
  EXPECT_TRUE(
      at::equal(y, at::linear(input().to(at::kBFloat16), rounded.narrow(0, 0, 6).view({2, 3}),
                              rounded.narrow(0, 6, 2))));
  std::vector<float> gradients(8, NAN);
  const auto result = mapped.unit.backward(call, input(), y, 1, gradients.data(), true);
  EXPECT_EQ(result.dx.scalar_type(), at::kFloat) << "of the type of x";
  EXPECT_FALSE(std::isnan(gradients[7]));
}

TEST(ModuleUnitTest, TheLossIsSumAndSeed) {
  Linear linear(3, 1);
  ModuleUnit unit(
      {"loss", linear.ptr(),
       [linear](const at::Tensor& x, const TensorBatch&) mutable { return linear(x).sum(); }},
      DType::kFp32);
  const std::vector<float> params = unit.take_first_weights();
  std::vector<float> gradients(4, NAN);
  const auto result =
      unit.backward({params.data(), kNoBatch, {}}, input(), {}, 0.5, gradients.data(), false);
  EXPECT_EQ(gradients[3], 2.0F) << "four rows, half of each";
  EXPECT_FALSE(result.dx.defined());
  EXPECT_NE(result.loss_sum, 0);
}

TEST(ModuleUnitTest, ForwardAndBackwardDrawTheSame) {
  std::vector<at::Tensor> masks;
  Mapped mapped([&masks](const at::Tensor& x, const TensorBatch&) {
    masks.push_back(at::dropout(at::ones({50}), 0.5, true));
    return x;
  });
  const auto draw = [&](uint64_t key) {
    const ModuleUnit::Call call{mapped.params.data(), kNoBatch, key};
    mapped.unit.forward(call, input());
    at::rand({3});  // the user's own draws
    mapped.unit.backward(call, input(), at::ones({4, 3}), 1, nullptr, true);
  };
  auto generator = at::detail::getDefaultCPUGenerator();
  generator.set_current_seed(5);
  const at::Tensor undisturbed = at::rand({6}).narrow(0, 3, 3).clone();
  generator.set_current_seed(5);
  draw(11);
  EXPECT_TRUE(at::equal(masks.at(0), masks.at(1)));
  EXPECT_TRUE(at::equal(at::rand({3}), undisturbed)) << "the user's generator goes on as it was";
  draw(12);
  EXPECT_FALSE(at::equal(masks.at(0), masks.at(2)));
}

TEST(ModuleUnitTest, EvalModeIsForTheCallAlone) {
  torch::nn::Dropout outer(0.5);
  ModuleUnit unit({"drop", outer.ptr(),
                   [outer](const at::Tensor& x, const TensorBatch&) mutable { return outer(x); }},
                  DType::kFp32);
  EXPECT_TRUE(at::equal(unit.evaluate({{}, kNoBatch, {}}, input()), input()));
  EXPECT_TRUE(outer->is_training());
}

struct Refused {
  std::string name;
  std::function<void()> call;
  std::string message;  // a part of it
};

CustomBlock of(const std::shared_ptr<torch::nn::Module>& module) {
  return {"b", module, [](const at::Tensor& x, const TensorBatch&) { return x; }};
}

struct TwoNames : torch::nn::Module {
  TwoNames() {
    first = register_parameter("first", at::ones({2}));
    second = register_parameter("second", first);
  }
  at::Tensor first, second;
};

std::shared_ptr<torch::nn::Module> frozen_in_part() {
  Linear linear(2, 2);
  linear->bias.set_requires_grad(false);
  return linear.ptr();
}

std::shared_ptr<torch::nn::Module> in_double() {
  Linear linear(2, 2);
  linear->to(at::kDouble);
  return linear.ptr();
}

void run_function(const BlockFunction& function) {
  const Mapped mapped(function);
  mapped.unit.backward(mapped.call(), input(), at::ones({4, 3}), 1, nullptr, true);
}

std::vector<Refused> refused_things() {
  const auto make = [](CustomBlock block, DType dtype = DType::kFp32) {
    return [block, dtype] { const ModuleUnit unit(block, dtype); };
  };
  const auto run = [](const BlockFunction& function) { return [=] { run_function(function); }; };
  return {
      {"Buffer", make(of(torch::nn::BatchNorm1d(4).ptr())), "b': running_mean is a buffer"},
      {"SharedInside", make(of(std::make_shared<TwoNames>())),
       "b.first and b.second are one tensor"},
      {"FrozenInPart", make(of(frozen_in_part())), "'b' is frozen in part"},
      {"Double", make(of(in_double())), "b.weight must be fp32"},
      {"NoName", make({"", nullptr, of(nullptr).function}), "name is ''"},
      {"NoFunction", make({"b", nullptr, nullptr}), "'b' has no function"},
      {"Fp16", make(of(nullptr), DType::kFp16), "fp16"},
      {"Integers", run([](const at::Tensor& x, const TensorBatch&) { return x.to(at::kLong); }),
       "'map' must return a tensor of a floating type, found Long [4, 3]"},
      {"Nothing", run([](const at::Tensor&, const TensorBatch&) { return at::Tensor(); }),
       "found none"},
      {"Detached", run([](const at::Tensor& x, const TensorBatch&) { return x.detach(); }),
       "depends neither"},
      {"Unkeyed", run([](const at::Tensor& x, const TensorBatch&) { return x * at::rand({3}); }),
       "'map' draws random numbers"},
      {"InputInPlace",
       [] {
         const Mapped mapped([](const at::Tensor& x, const TensorBatch&) { return x.mul_(2); });
         mapped.unit.forward(mapped.call(), input());
       },
       "'map' changes its input"},
      {"ParameterInPlace",
       [] {
         Linear linear(3, 3);
         ModuleUnit unit({"map", linear.ptr(),
                          [linear](const at::Tensor& x, const TensorBatch&) mutable {
                            linear->bias.detach().zero_();
                            return linear(x);
                          }},
                         DType::kFp32);
         const std::vector<float> params = unit.take_first_weights();
         unit.forward({params.data(), kNoBatch, {}}, input());
       },
       "map.bias was changed in place"},
      {"LossOfMany",
       [] { Mapped().unit.backward(Mapped().call(), input(), {}, 1, nullptr, false); },
       "'map' is the last: it must return the sum of the loss, one number in fp32 or fp64, found "
       "Float [4, 2]"},
      {"LossInBf16", [] { Mapped().unit.check_loss(at::ones({}, at::kBFloat16)); },
       "found BFloat16 []"},
  };
}

void PrintTo(const Refused& refused, std::ostream* out) {
  *out << refused.name;
}

class RefusedTest : public testing::TestWithParam<Refused> {};

TEST_P(RefusedTest, IsRefusedByName) {
  EXPECT_NE(refusal_of(GetParam().call).find(GetParam().message), std::string::npos)
      << refusal_of(GetParam().call);
}

INSTANTIATE_TEST_SUITE_P(Things, RefusedTest, testing::ValuesIn(refused_things()),
                         [](const auto& thing) { return thing.param.name; });

}  // namespace
}  // namespace lockstep::runtime

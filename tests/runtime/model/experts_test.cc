#include "runtime/model/experts.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <set>

#include <gtest/gtest.h>

#include "tests/runtime/model/test_models.h"

namespace lockstep::runtime {
namespace {

// A routing with memory of its own.
struct OwnedRouting {
  explicit OwnedRouting(const ExpertsShape& shape)
      : begins(static_cast<size_t>(shape.num_experts) + 1, -1),
        row_of(static_cast<size_t>(shape.pairs()), -1),
        experts(row_of),
        pair_of(row_of),
        weight_of(row_of.size(), -1) {}
  Routing view() {
    return {.begins = begins.data(),
            .row_of = row_of.data(),
            .weight_of = weight_of.data(),
            .experts = experts.data(),
            .pair_of = pair_of.data()};
  }
  std::vector<int32_t> begins, row_of, experts, pair_of;
  std::vector<float> weight_of;
};

using Ints = std::vector<int32_t>;

TEST(RouteTest, SortsPairsByExpertAndThenByRow) {
  const ExpertsShape shape = {.rows = 3, .num_experts = 4, .per_token = 2};
  const std::vector<float> p = {0.1f, 0.4f, 0.2f, 0.3f,   // 1 and 3
                                0.5f, 0.1f, 0.3f, 0.1f,   // 0 and 2
                                0.0f, 0.6f, 0.3f, 0.1f};  // 1 and 2
  OwnedRouting routing(shape);
  route(shape, p.data(), routing.view());
  EXPECT_EQ(routing.experts, (Ints{1, 3, 0, 2, 1, 2}));
  EXPECT_EQ(routing.begins, (Ints{0, 1, 3, 5, 6}));
  EXPECT_EQ(routing.row_of, (Ints{1, 0, 2, 1, 2, 0}));
  EXPECT_EQ(routing.pair_of, (Ints{1, 5, 0, 3, 2, 4}));
  EXPECT_FLOAT_EQ(routing.weight_of[5], 0.3f / 0.7f);
}

TEST(RouteTest, WeightsAreTheProbabilitiesUnlessTheyAreNormed) {
  const ExpertsShape shape = {.rows = 1, .num_experts = 3, .per_token = 2, .norms_top = false};
  const std::vector<float> p = {0.5f, 0.2f, 0.3f};
  OwnedRouting routing(shape);
  route(shape, p.data(), routing.view());
  EXPECT_EQ(routing.weight_of, (std::vector<float>{0.5f, 0.3f}));
}

TEST(RouteTest, OfEqualProbabilitiesTheFirstExpertsAreTaken) {
  const ExpertsShape shape = {.rows = 2, .num_experts = 5, .per_token = 3};
  const std::vector<float> p = {0.2f, 0.2f, 0.2f, 0.2f, 0.2f, 0.1f, 0.3f, 0.1f, 0.3f, 0.2f};
  OwnedRouting routing(shape);
  route(shape, p.data(), routing.view());
  EXPECT_EQ(routing.experts, (Ints{0, 1, 2, 1, 3, 4}));
}

// A step that is not finite is skipped later; until then nothing may be read or written elsewhere.
TEST(RouteTest, NotANumberStillRoutesToExpertsThatThereAre) {
  const ExpertsShape shape = {.rows = 2, .num_experts = 4, .per_token = 2};
  const float nan = std::nanf("");
  const std::vector<float> p = {nan, nan, nan, nan, 0.1f, nan, 0.7f, 0.2f};
  OwnedRouting routing(shape);
  route(shape, p.data(), routing.view());
  for (size_t row = 0; row < 2; ++row) {
    const std::set<int32_t> taken(routing.experts.begin() + static_cast<int64_t>(2 * row),
                                  routing.experts.begin() + static_cast<int64_t>(2 * row) + 2);
    EXPECT_EQ(taken.size(), 2U);
    EXPECT_GE(*taken.begin(), 0);
    EXPECT_LT(*taken.rbegin(), 4);
  }
  EXPECT_EQ(routing.begins.back(), 4);
}

// An expert that no token takes has a gradient of zeros, written: buffers are never cleared.
TEST(DecoderTest, AnExpertWithoutATokenHasNoGradient) {
  TestModel model = family_model(
      "qwen3_moe",
      {{"num_local_experts", 19}, {"num_experts_per_tok", 1}, {"moe_intermediate_size", 24}});
  model.shape = {.batch = 1, .seq = 3};
  const UnitBuffers params = random_params(model.config, 7);
  const std::vector<int32_t> tokens = random_tokens(3, model.config.vocab_size, 1);
  const MicroBatchIo io = {.tokens = tokens.data(), .labels = tokens.data(), .loss_scale = 1};
  for (const DType dtype : {DType::kFp32, DType::kBf16}) {
    Decoder decoder(model.config, model.shape, common::ActivationCheckpointing::kNone, dtype);
    const PassResult result = run_pass(decoder, params, io, dtype);
    for (int64_t layer = 1; layer <= model.config.num_hidden_layers; ++layer) {
      const std::vector<float>& gradients = result.gradients[static_cast<size_t>(layer)];
      std::set<std::string> taken;
      for (const UnitTensor& tensor : decoder.unit(layer).tensors) {
        if (tensor.role != common::TensorRole::kDown) continue;
        const auto begin = gradients.begin() + tensor.begin_elem;
        EXPECT_TRUE(std::none_of(begin, begin + tensor.num_elems, [](float value) {
          return std::isnan(value);
        })) << tensor.name;
        if (std::any_of(begin, begin + tensor.num_elems, [](float v) { return v != 0; })) {
          taken.insert(tensor.name);
        }
      }
      EXPECT_GE(taken.size(), 1U);
      EXPECT_LE(taken.size(), 3U);
    }
  }
}

}  // namespace
}  // namespace lockstep::runtime

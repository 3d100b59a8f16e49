// What bf16 and fp16 must not lose: small updates, the loss scale over interruptions, and the same
// decision about a step that overflows on all ranks.
#include <cmath>
#include <cstring>

#include <gtest/gtest.h>
#include <signal.h>

#include "runtime/checkpoint/safetensors.h"
#include "runtime/kernels/elementwise.h"
#include "tests/equivalence/same_bits.h"

namespace lockstep::equivalence {
namespace {

class PrecisionTest : public SameBitsTest {
 protected:
  // All exported weights, in the order of their names.
  std::vector<float> exported(const std::string& name) const {
    const auto reader = runtime::SafetensorsReader::open(weights_path(name));
    EXPECT_TRUE(reader);
    std::vector<float> weights;
    for (const auto& [tensor, stored] : reader->tensors()) {
      EXPECT_EQ(stored.dtype, "F32");
      const std::size_t begin = weights.size();
      weights.resize(begin + static_cast<std::size_t>(stored.num_bytes) / sizeof(float));
      EXPECT_TRUE(
          reader->read(stored, 0, std::as_writable_bytes(std::span(weights).subspan(begin))));
    }
    return weights;
  }

  std::vector<nlohmann::json> metrics(const std::string& name) const {
    std::istringstream lines(read_text(folder_.path(name) + "/metrics.jsonl"));
    std::vector<nlohmann::json> parsed;
    for (std::string line; std::getline(lines, line);)
      parsed.push_back(nlohmann::json::parse(line));
    return parsed;
  }
};

std::vector<uint16_t> rounded_to_bf16(const std::vector<float>& weights) {
  std::vector<uint16_t> rounded(weights.size());
  runtime::narrow(static_cast<int64_t>(weights.size()), weights.data(),
                  {common::DType::kBf16, rounded.data()});
  return rounded;
}

// Each update is far too small for bf16 to hold. The masters have them all, and twelve lead further
// than two; under a strategy that keeps masters of slices only.
TEST_F(PrecisionTest, NoUpdateIsLostToBf16Weights) {
  const auto job = [](int64_t steps) {
    return TinyJob{
        .ranks = 2,
        .strategy = "zero1",
        .steps = steps,
        .lr = 1e-6,
        .precision = "bf16",
        .more = {{"schedule", {{"name", "constant"}}}, {"optimizer", {{"weightDecay", 0}}}}};
  };
  train(job(1), "one");
  train(job(2), "two");
  train(job(12), "twelve");
  const std::vector<float> one = exported("one");
  const std::vector<float> two = exported("two");
  const std::vector<float> twelve = exported("twelve");
  const std::vector<uint16_t> rounded_one = rounded_to_bf16(one);
  const std::vector<uint16_t> rounded_two = rounded_to_bf16(two);
  std::size_t seen_after_two = 0, moved_by_two = 0, moved_by_twelve = 0;
  for (std::size_t i = 0; i < one.size(); ++i) {
    seen_after_two += rounded_one[i] != rounded_two[i];
    moved_by_two += one[i] != two[i];
    moved_by_twelve += std::abs(twelve[i] - one[i]) > 2 * std::abs(two[i] - one[i]);
  }
  // Bytes that the corpus has not got have no gradient in the embedding.
  EXPECT_GT(moved_by_two, one.size() / 4 * 3);
  EXPECT_LT(seen_after_two, moved_by_two / 20) << "bf16 could have held these updates";
  EXPECT_GT(moved_by_twelve, moved_by_two / 10 * 7);
}

// The first scale is far too high: overflows lower it, on all ranks at the same steps.
TinyJob overflowing(int ranks, const std::string& strategy, int64_t steps) {
  return {.ranks = ranks,
          .strategy = strategy,
          .steps = steps,
          .precision = "fp16",
          .more = {{"lossScale", {{"initialPower", 32}, {"window", 20}}}}};
}

TEST_F(PrecisionTest, Fp16OverflowsAtFirstAndRecoversWithTheSameBits) {
  train(overflowing(1, "ddp", 40), "reference");
  const std::vector<nlohmann::json> lines = metrics("reference");
  ASSERT_EQ(lines.size(), 40u);
  EXPECT_TRUE(lines.front().at("grad_norm").is_null());
  EXPECT_EQ(lines.front().at("skipped"), true);
  EXPECT_EQ(lines.front().at("loss_scale"), 0x1p32);
  EXPECT_TRUE(lines.back().at("grad_norm").is_number());
  EXPECT_LT(lines.back().at("loss_scale").get<double>(), 0x1p32);
  for (const std::string strategy : {"ddp", "zero3"}) {
    train(overflowing(2, strategy, 40), strategy);
    expect_same(strategy, "reference");
  }
}

// Saved while the scale is falling, on three ranks; finished on two.
TEST_F(PrecisionTest, TheLossScaleGoesOnAfterAResumeOnOtherRanks) {
  train(overflowing(1, "ddp", 80), "reference");
  EXPECT_EQ(interrupt(overflowing(3, "zero3", 80), "stopped", 1, SIGTERM),
            (std::vector<int>{85, 85, 85}));
  train(overflowing(2, "zero2", 80), "stopped", 1);
  expect_same("stopped", "reference");
  const std::vector<nlohmann::json> expected = metrics("reference");
  const std::vector<nlohmann::json> found = metrics("stopped");
  ASSERT_EQ(found.size(), expected.size());
  for (std::size_t i = 0; i < found.size(); ++i) {
    EXPECT_EQ(found[i].at("loss_scale"), expected[i].at("loss_scale")) << "step " << i + 1;
  }
}

}  // namespace
}  // namespace lockstep::equivalence

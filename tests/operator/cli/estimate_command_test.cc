#include "operator/cli/estimate_command.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace lockstep::cli {
namespace {

using common::Strategy;
using testing::HasSubstr;
using testing::Not;

// 100 M parameters and a small batch: the state decides.
common::TrainConfig large_model() {
  return {.model = {.model_type = "llama",
                    .vocab_size = 32000,
                    .hidden_size = 768,
                    .intermediate_size = 2048,
                    .num_hidden_layers = 8,
                    .num_attention_heads = 12,
                    .num_key_value_heads = 12,
                    .head_dim = 64,
                    .max_position_embeddings = 128},
          .data = {.sequence_length = 128},
          .batch = {.global_batch_size = 8, .micro_batch_size = 1}};
}

constexpr int64_t kGibibyte = int64_t{1} << 30;

TEST(EstimateCommandTest, MarksTheStrategyThatAutoChoosesAndWhatDoesNotFit) {
  const EstimateReport roomy = estimate_job("big", large_model(), 4, 64 * kGibibyte);
  EXPECT_TRUE(roomy.strategies[1].chosen);
  EXPECT_THAT(render_table(roomy), HasSubstr("zero1 *"));
  EXPECT_THAT(render_table(roomy), Not(HasSubstr("does not fit")));

  const EstimateReport tight = estimate_job("big", large_model(), 4, kGibibyte);
  EXPECT_TRUE(tight.strategies.back().chosen);
  const std::string table = render_table(tight);
  EXPECT_THAT(table, HasSubstr("zero3 *"));
  EXPECT_THAT(table, HasSubstr("does not fit"));
  EXPECT_THAT(table, HasSubstr("1024.0 MiB"));
  EXPECT_THAT(table, HasSubstr("big: 105788160 parameters, 4 ranks"));
}

TEST(EstimateCommandTest, NamesThePrecision) {
  common::TrainConfig train = large_model();
  train.precision = common::DType::kBf16;
  EXPECT_THAT(render_table(estimate_job("big", train, 4, std::nullopt)),
              HasSubstr("4 ranks, bf16; MiB of a rank"));
}

TEST(EstimateCommandTest, SaysHowManyParametersAdaptersTrain) {
  common::TrainConfig train = large_model();
  train.lora = {.rank = 8, .targets = {"all-linear"}};
  train.frozen.assign(static_cast<std::size_t>(train.model.num_hidden_layers) + 2, true);
  const EstimateReport report = estimate_job("big", train, 4, 64 * kGibibyte);
  EXPECT_GT(report.num_trained, 0);
  EXPECT_LT(report.num_trained, report.num_parameters / 20);
  EXPECT_THAT(render_table(report), HasSubstr("big: 105788160 parameters, " +
                                              std::to_string(report.num_trained) + " trained, 4"));
}

TEST(EstimateCommandTest, ExplainsWhatAutoComesToAndNothingElse) {
  common::TrainConfig train = large_model();
  const auto line = [&](std::optional<int64_t> limit_bytes) {
    return explain_auto_strategy(train, 4, limit_bytes).value_or("nothing");
  };
  EXPECT_THAT(line(64 * kGibibyte),
              HasSubstr("train.parallelism.strategy: auto -> zero1: least traffic"));
  EXPECT_THAT(line(64 * kGibibyte), Not(HasSubstr("without resources.limits.memory")));
  EXPECT_THAT(line(std::nullopt), HasSubstr("a rank's free memory decides"));
  EXPECT_THAT(line(kGibibyte / 64), HasSubstr("auto -> zero3: no strategy leaves a tenth"));
  EXPECT_THAT(line(kGibibyte / 64), HasSubstr("the run will refuse to start"));
  train.parallelism.strategy = Strategy::kZero2;
  EXPECT_EQ(line(64 * kGibibyte), "nothing");
}

TEST(EstimateCommandTest, JsonHoldsEveryPartAndTheirSum) {
  const nlohmann::json report = to_json(estimate_job("big", large_model(), 2, std::nullopt));
  EXPECT_TRUE(report.at("limitBytes").is_null());
  ASSERT_EQ(report.at("strategies").size(), 4U);
  for (const nlohmann::json& line : report.at("strategies")) {
    EXPECT_TRUE(line.at("fits").get<bool>());
    int64_t sum = 0;
    for (const auto& [key, value] : line.items()) {
      if (key.ends_with("Bytes") && key != "totalBytes") sum += value.get<int64_t>();
    }
    EXPECT_EQ(sum, line.at("totalBytes").get<int64_t>());
  }
}

TEST(EstimateCommandTest, SaysWhatLiesOnNvmeBesideTheMemory) {
  common::TrainConfig train = large_model();
  EXPECT_THAT(render_table(estimate_job("big", train, 2, std::nullopt)), Not(HasSubstr("nvme")));
  train.offload.optimizer = common::OffloadTarget::kNvme;
  const EstimateReport report = estimate_job("big", train, 2, std::nullopt);
  EXPECT_THAT(render_table(report), HasSubstr(" on nvme"));
  EXPECT_EQ(to_json(report).at("strategies").at(0).at("bytesOnNvme"),
            report.strategies[0].memory.nvme);
}

TEST(EstimateCommandTest, EveryStageOfZeroNeedsLessOnManyRanks) {
  common::TrainConfig train = large_model();
  train.batch.global_batch_size = 8;
  const EstimateReport report = estimate_job("big", train, 8, std::nullopt);
  for (std::size_t i = 1; i < report.strategies.size(); ++i) {
    EXPECT_LT(report.strategies[i].memory.total(), report.strategies[i - 1].memory.total());
  }
}

}  // namespace
}  // namespace lockstep::cli

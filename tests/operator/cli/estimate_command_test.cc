#include "operator/cli/estimate_command.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "operator/api/manifest.h"
#include "tests/operator/cli/large_model.h"

namespace lockstep::cli {
namespace {

using common::Strategy;
using testing::HasSubstr;
using testing::Not;

// 100 M parameters and a small batch: the state decides.
common::TrainConfig small_batches() {
  return large_model(128, {.global_batch_size = 8, .micro_batch_size = 1});
}

constexpr int64_t kGibibyte = int64_t{1} << 30;

RankMemory of_job(int64_t limit_bytes) {
  return {.limit_bytes = limit_bytes, .source = "resources.limits.memory"};
}

RankMemory of_gpu(std::optional<int64_t> limit_bytes = std::nullopt) {
  return {.device = common::RankDevice::kGpu, .limit_bytes = limit_bytes, .source = "--memory"};
}

TEST(EstimateCommandTest, MarksTheStrategyThatAutoChoosesAndWhatDoesNotFit) {
  const EstimateReport roomy = estimate_job("big", small_batches(), 4, of_job(64 * kGibibyte));
  EXPECT_TRUE(roomy.strategies[1].chosen);
  EXPECT_THAT(render_table(roomy), HasSubstr("zero1 *"));
  EXPECT_THAT(render_table(roomy), Not(HasSubstr("  does not fit")));

  const EstimateReport tight = estimate_job("big", small_batches(), 4, of_job(kGibibyte));
  EXPECT_TRUE(tight.strategies.back().chosen);
  const std::string table = render_table(tight);
  EXPECT_THAT(table, HasSubstr("zero3 *"));
  EXPECT_THAT(table, HasSubstr("does not fit"));
  EXPECT_THAT(table, HasSubstr("1024.0 MiB"));
  EXPECT_THAT(table, HasSubstr("big: 105788160 parameters, 4 ranks"));
}

TEST(EstimateCommandTest, NamesThePrecision) {
  common::TrainConfig train = small_batches();
  train.precision = common::DType::kBf16;
  EXPECT_THAT(render_table(estimate_job("big", train, 4, {})),
              HasSubstr("4 ranks, bf16; MiB of a rank"));
}

TEST(EstimateCommandTest, SaysHowManyParametersAdaptersTrain) {
  common::TrainConfig train = small_batches();
  train.lora = {.rank = 8, .targets = {"all-linear"}};
  train.frozen.assign(static_cast<std::size_t>(train.model.num_hidden_layers) + 2, true);
  const EstimateReport report = estimate_job("big", train, 4, of_job(64 * kGibibyte));
  EXPECT_GT(report.num_trained, 0);
  EXPECT_LT(report.num_trained, report.num_parameters / 20);
  EXPECT_THAT(render_table(report), HasSubstr("big: 105788160 parameters, " +
                                              std::to_string(report.num_trained) + " trained, 4"));
}

TEST(EstimateCommandTest, ExplainsWhatAutoComesToAndNothingElse) {
  common::TrainConfig train = small_batches();
  const auto line = [&](std::optional<int64_t> limit_bytes) {
    return explain_auto_strategy(train, 4,
                                 {.limit_bytes = limit_bytes, .source = "resources.limits.memory"})
        .value_or("nothing");
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
  const nlohmann::json report = to_json(estimate_job("big", small_batches(), 2, {}));
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
  common::TrainConfig train = small_batches();
  EXPECT_THAT(render_table(estimate_job("big", train, 2, {})), Not(HasSubstr("nvme")));
  train.offload.optimizer = common::OffloadTarget::kNvme;
  const EstimateReport report = estimate_job("big", train, 2, {});
  EXPECT_THAT(render_table(report), HasSubstr(" on nvme"));
  EXPECT_EQ(to_json(report).at("strategies").at(0).at("bytesOnNvme"),
            report.strategies[0].memory.nvme);
}

TEST(EstimateCommandTest, TellsWhatOtherRankCountsWouldHold) {
  common::TrainConfig train = small_batches();
  const EstimateReport report = estimate_job("big", train, 4, of_job(2 * kGibibyte));
  std::vector<int64_t> counts;
  for (const RankCountEstimate& line : report.rank_counts) counts.push_back(line.ranks);
  EXPECT_EQ(counts, (std::vector<int64_t>{1, 2, 4, 8}));
  EXPECT_EQ(report.rank_counts[2].total_bytes[3], report.strategies[3].memory.total());
  const std::string table = render_table(report);
  EXPECT_THAT(table, HasSubstr("in all, by ranks\n"));
  EXPECT_THAT(table, testing::ContainsRegex("\n1 +\\(")) << "does not fit";
  EXPECT_THAT(table, testing::ContainsRegex("\n4 \\* +\\("));
  EXPECT_THAT(table, testing::ContainsRegex("\n8 .* [0-9.]+\n"));
  EXPECT_EQ(to_json(report).at("byRanks").at(3).at("zero3Bytes"),
            report.rank_counts[3].total_bytes[3]);

  train.batch.global_batch_size = 1 << 14;
  EXPECT_EQ(estimate_job("big", train, 512, {}).rank_counts.size(), 8U);
  train.parallelism.shard_ranks = 4;
  train.batch.global_batch_size = 8;
  for (const RankCountEstimate& line : estimate_job("big", train, 4, {}).rank_counts) {
    EXPECT_EQ(line.ranks % 4, 0);
  }
}

TEST(EstimateCommandTest, OfAGpuTheHostsLimitSaysNothing) {
  const EstimateReport open = estimate_job("big", small_batches(), 4, of_gpu());
  EXPECT_THAT(render_table(open), HasSubstr("MiB of a rank's GPU\n"));
  EXPECT_THAT(render_table(open), HasSubstr("whose memory --memory tells"));
  EXPECT_EQ(to_json(open).at("device"), "gpu");
  EXPECT_THAT(explain_auto_strategy(small_batches(), 4, of_gpu()).value_or(""),
              HasSubstr("the memory of a rank's GPU decides"));
  const EstimateReport tight = estimate_job("big", small_batches(), 4, of_gpu(kGibibyte));
  EXPECT_THAT(render_table(tight), HasSubstr("--memory is 1024.0 MiB"));
  EXPECT_GT(tight.strategies[0].memory.process,
            estimate_job("big", small_batches(), 4, {}).strategies[0].memory.process);
}

TEST(EstimateCommandTest, ExplainsTheArithmeticOfAJob) {
  const auto lines_of = [](const std::string& resources) {
    const api::Manifest manifest = api::parse_manifest(
        "apiVersion: lockstep.dev/v1alpha1\nkind: TrainingJob\nmetadata: {name: small}\n"
        "spec:\n  ranks: 2\n  resources: {limits: {" +
            resources +
            "}}\n  train:\n    model: {config: {vocab_size: 256, hidden_size: 32, "
            "intermediate_size: 64, num_hidden_layers: 2, num_attention_heads: 2}}\n"
            "    data: {train: corpus.txt, sequenceLength: 64}\n    batch: {globalBatchSize: 8}\n"
            "    steps: 6\n",
        {.file_name = "job.yaml"});
    EXPECT_FALSE(common::has_errors(manifest.problems));
    return explain_arithmetic(manifest.job);
  };
  using testing::ElementsAre;
  EXPECT_THAT(lines_of("memory: 1Gi"),
              ElementsAre(HasSubstr("auto -> zero"), HasSubstr("batch: 8 sequences = 2 ranks"),
                          testing::ContainsRegex(
                              "^memory: [0-9.]+ MiB of a rank under zero[12], of 1024.0 MiB$")));
  EXPECT_THAT(lines_of("memory: 1Mi").back(), HasSubstr("does not fit; lockstep estimate says"));
  EXPECT_THAT(lines_of("memory: 1Mi, nvidia.com/gpu: 1").back(),
              testing::ContainsRegex("^memory: 6[0-9]{2}.* MiB of a rank's GPU under zero[12]$"));
}

TEST(EstimateCommandTest, SaysNothingOfAJobWhoseTeacherIsElsewhere) {
  const api::Manifest manifest = api::parse_manifest(
      "apiVersion: lockstep.dev/v1alpha1\nkind: TrainingJob\nmetadata: {name: small}\n"
      "spec:\n  ranks: 2\n  train:\n    task: distill\n"
      "    distill: {teacher: hf://acme/big}\n    tokenizer: {type: hf, path: words}\n"
      "    model: {config: {vocab_size: 256, hidden_size: 32, intermediate_size: 64, "
      "num_hidden_layers: 2, num_attention_heads: 2}}\n"
      "    data: {train: chats.jsonl, sequenceLength: 64}\n    batch: {globalBatchSize: 8}\n"
      "    steps: 6\n",
      {.file_name = "job.yaml"});
  EXPECT_FALSE(common::has_errors(manifest.problems));
  EXPECT_THAT(explain_arithmetic(manifest.job), testing::IsEmpty());
}

TEST(EstimateCommandTest, EveryStageOfZeroNeedsLessOnManyRanks) {
  common::TrainConfig train = small_batches();
  train.batch.global_batch_size = 8;
  const EstimateReport report = estimate_job("big", train, 8, {});
  for (std::size_t i = 1; i < report.strategies.size(); ++i) {
    EXPECT_LT(report.strategies[i].memory.total(), report.strategies[i - 1].memory.total());
  }
}

}  // namespace
}  // namespace lockstep::cli

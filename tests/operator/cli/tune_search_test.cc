#include "operator/cli/tune_search.h"

#include <functional>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace lockstep::cli {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

common::TrainConfig job(int64_t global_batch) {
  return {.model = {.model_type = "llama",
                    .vocab_size = 256,
                    .hidden_size = 64,
                    .intermediate_size = 128,
                    .num_hidden_layers = 2,
                    .num_attention_heads = 4,
                    .num_key_value_heads = 4,
                    .head_dim = 16,
                    .max_position_embeddings = 64},
          .data = {.sequence_length = 64},
          .batch = {.global_batch_size = global_batch, .micro_batch_size = 1},
          .parallelism = {.strategy = common::Strategy::kZero3}};
}

std::vector<int64_t> sizes(const std::vector<TuneCandidate>& candidates) {
  std::vector<int64_t> all;
  for (const TuneCandidate& candidate : candidates) all.push_back(candidate.micro_batch);
  return all;
}

TEST(TuneSearchTest, CandidatesKeepTheGlobalBatchOnAllRanks) {
  const std::vector<TuneCandidate> candidates = tune_candidates(job(24), 2, 0);
  EXPECT_THAT(sizes(candidates), ElementsAre(1, 2, 3, 4, 6, 12));
  for (std::size_t i = 0; i < candidates.size(); ++i) {
    EXPECT_EQ(candidates[i].micro_batch * candidates[i].accumulation * 2, 24);
    if (i == 0) continue;
    EXPECT_GT(candidates[i].estimated_bytes, candidates[i - 1].estimated_bytes);
  }
  EXPECT_THAT(sizes(tune_candidates(job(6), 3, 0)), ElementsAre(1, 2));
}

// Sizes 1, 2, 4, ... whose estimate is as many bytes.
std::vector<TuneCandidate> doubling(int count) {
  std::vector<TuneCandidate> candidates;
  for (int i = 0; i < count; ++i) {
    candidates.push_back({.micro_batch = int64_t{1} << i,
                          .accumulation = int64_t{1} << (count - i),
                          .estimated_bytes = (int64_t{1} << i) * 1000});
  }
  return candidates;
}

// The sizes that are tried, in order, where those up to `largest` really fit.
std::vector<int64_t> tried(const std::vector<TuneCandidate>& candidates, const TuneLimits& limits,
                           int64_t largest, std::vector<TuneTrial>* trials = nullptr) {
  std::vector<TuneTrial> own;
  std::vector<TuneTrial>& all = trials == nullptr ? own : *trials;
  std::vector<int64_t> order;
  while (const auto next = next_trial(candidates, all, limits)) {
    const int64_t size = candidates[*next].micro_batch;
    order.push_back(size);
    all.push_back({.micro_batch = size,
                   .has_run = size <= largest,
                   .measured_bytes = size * 1000,
                   .tokens_per_second = 100,
                   .fits = size <= largest});
  }
  return order;
}

TEST(TuneSearchTest, BeginsWhereTheEstimateDoesAndThenMeasuresSmallerOnes) {
  EXPECT_THAT(tried(doubling(6), {.memory_bytes = 8500, .max_trials = 3}, 8), ElementsAre(8, 4, 2));
}

TEST(TuneSearchTest, GoesDownUntilOneFits) {
  std::vector<TuneTrial> trials;
  EXPECT_THAT(tried(doubling(6), {.memory_bytes = 33000, .max_trials = 9}, 4, &trials),
              ElementsAre(32, 16, 8, 4, 2, 1));
  EXPECT_EQ(best_trial(trials)->micro_batch, 4);
}

TEST(TuneSearchTest, GoesUpAsFarAsTheEstimateMayBeWrong) {
  // 16 is estimated at 16000, within a tenth of 15000; 32 is beyond all hope.
  EXPECT_THAT(tried(doubling(6), {.memory_bytes = 15000, .max_trials = 2}, 32), ElementsAre(8, 16));
  EXPECT_THAT(tried(doubling(6), {.memory_bytes = 15000, .max_trials = 9}, 8),
              ElementsAre(8, 16, 4, 2, 1));
}

TEST(TuneSearchTest, EndsWhereNotEvenTheSmallestFits) {
  std::vector<TuneTrial> trials;
  EXPECT_THAT(tried(doubling(4), {.memory_bytes = 10, .max_trials = 9}, 0, &trials),
              ElementsAre(1));
  EXPECT_FALSE(best_trial(trials));
  EXPECT_THAT(tried({}, {.memory_bytes = 10}, 0), IsEmpty());
}

TEST(TuneSearchTest, TheTableNamesTheLargestAndTheFastest) {
  TuneReport report{.job = "small",
                    .ranks = 2,
                    .global_batch = 32,
                    .memory_bytes = 5000,
                    .memory_source = "--memory",
                    .candidates = doubling(4),
                    .trials = {{.micro_batch = 4,
                                .has_run = true,
                                .measured_bytes = 4000,
                                .tokens_per_second = 90,
                                .fits = true},
                               {.micro_batch = 8},
                               {.micro_batch = 2,
                                .has_run = true,
                                .measured_bytes = 2000,
                                .tokens_per_second = 120,
                                .fits = true}}};
  const std::string text = render_tuning(report);
  EXPECT_THAT(text, HasSubstr("* the largest that fits: --set train.batch.microBatchSize=4\n"));
  EXPECT_THAT(text,
              HasSubstr("the fastest of those that ran: --set train.batch.microBatchSize=2\n"));
  EXPECT_THAT(text, HasSubstr("out of memory\n"));
  EXPECT_THAT(text, HasSubstr("fits, says the estimate\n")) << "of 1, which was not tried";
  const nlohmann::json json = to_json(report);
  EXPECT_EQ(json.at("best"), 4);
  EXPECT_EQ(json.at("candidates").at(3).at("trial").at("outOfMemory"), true);
  EXPECT_FALSE(json.at("candidates").at(0).contains("trial"));
  report.trials = {{.micro_batch = 1}};
  EXPECT_THAT(render_tuning(report), Not(HasSubstr("--set")));
}

constexpr const char* kHead =
    "# mine\nmodel: {config: {vocab_size: 256, hidden_size: 64, intermediate_size: 128, "
    "num_hidden_layers: 2, num_attention_heads: 4}}\n"
    "data: {train: corpus.txt, sequenceLength: 64}\nsteps: 8\n";

// A training configuration alone.
std::string bare(const std::string& batch) {
  return kHead + batch;
}

TEST(TuneSearchTest, AnEditChangesOneNumberAndNothingElse) {
  struct Case {
    std::string batch, edited;
  };
  for (const Case& one : std::vector<Case>{
           {"batch: {globalBatchSize: 8, microBatchSize: 1}  # why\n",
            "batch: {globalBatchSize: 8, microBatchSize: 4}  # why\n"},
           {"batch: {globalBatchSize: 8}\n", "batch: {globalBatchSize: 8, microBatchSize: 4}\n"},
           {"batch: {globalBatchSize: 8, accumulationSteps: 8}\n",
            "batch: {globalBatchSize: 8, microBatchSize: 4}\n"},
           {"batch:\n  globalBatchSize: 8  # all\n",
            "batch:\n  globalBatchSize: 8  # all\n  microBatchSize: 4\n"},
           {"batch:\n  # microBatchSize: 7\n  globalBatchSize: 8\n  microBatchSize: 2\n",
            "batch:\n  # microBatchSize: 7\n  globalBatchSize: 8\n  microBatchSize: 4\n"}}) {
    const auto edited = with_micro_batch(bare(one.batch), 4, 8);
    ASSERT_TRUE(edited) << one.batch << edited.error().message;
    EXPECT_EQ(*edited, bare(one.edited));
  }
}

TEST(TuneSearchTest, AnEditThatWouldMeanSomethingElseIsRefused) {
  for (const char* const batch :
       {"batch: {\"globalBatchSize\": 8}\n",                             // no edit that we know
        "batch: {microBatchSize: 1, accumulationSteps: 8}\n",            // another global batch
        "batch: {globalBatchSize: 8}\nnotes: {microBatchSize: 3}\n"}) {  // not of the batch
    const auto edited = with_micro_batch(bare(batch), 4, 8);
    ASSERT_FALSE(edited) << batch << *edited;
    EXPECT_THAT(edited.error().hint, HasSubstr("--set train.batch.microBatchSize=4"));
  }
}

}  // namespace
}  // namespace lockstep::cli

#include "runtime/data/sample_source.h"

#include <algorithm>
#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/runtime/data/token_data.h"

namespace lockstep::runtime {
namespace {

using common::ErrorCode;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(SampleSourceTest, LabelsAreTheInputsShiftedByOne) {
  const auto source = SampleSource::create(
      counting_samples({7}, 3), {.global_batch_size = 2, .micro_batch_size = 2, .shuffle = false});
  MicroBatch batch;
  ASSERT_TRUE(source->fill(0, 0, batch));
  EXPECT_THAT(batch.tokens, ElementsAre(0, 1, 2, 3, 4, 5));
  EXPECT_THAT(batch.labels, ElementsAre(1, 2, 3, 4, 5, 6));
  EXPECT_THAT(batch.positions, ElementsAre(0, 1, 2, 0, 1, 2));
  EXPECT_EQ(batch.positions_or_null(), nullptr);
  EXPECT_EQ(*source->count_labels(0), 6);
}

TEST(SampleSourceTest, BordersInOneRowGivePositionsToTheMicroBatch) {
  const auto source =
      SampleSource::create(counting_samples({4, 3}, 3),
                           {.global_batch_size = 2, .micro_batch_size = 2, .shuffle = false});
  MicroBatch batch;
  ASSERT_TRUE(source->fill(0, 0, batch));
  EXPECT_THAT(batch.positions, ElementsAre(0, 1, 2, 0, 0, 1));
  EXPECT_EQ(batch.positions_or_null(), batch.positions.data());
  EXPECT_EQ(*source->count_labels(0), 5);
}

// 21 samples in batches of 4: an epoch ends in the middle of a step, and the next begins there.
TEST(SampleSourceTest, EveryEpochSeesEverySampleOnce) {
  const auto source = SampleSource::create(
      counting_samples({211}, 10), {.global_batch_size = 4, .micro_batch_size = 2, .seed = 5});
  EXPECT_EQ(source->samples_per_epoch(), 21);
  std::vector<int64_t> order;
  for (int64_t step = 0; step < 21; ++step) {
    for (int64_t micro = 0; micro < source->num_micro_batches(); ++micro) {
      MicroBatch batch;
      ASSERT_TRUE(source->fill(step, micro, batch));
      order.push_back(batch.tokens[0] / 10);
      order.push_back(batch.tokens[10] / 10);
    }
  }
  for (int64_t epoch = 0; epoch < 4; ++epoch) {
    const std::set<int64_t> seen(order.begin() + epoch * 21, order.begin() + (epoch + 1) * 21);
    EXPECT_EQ(seen.size(), 21u) << epoch;
  }
}

TEST(SampleSourceTest, StepsFollowFromEpochs) {
  const auto source = SampleSource::create(counting_samples({211}, 10),
                                           {.global_batch_size = 4, .micro_batch_size = 1});
  EXPECT_EQ(source->steps_in(1), 5);    // 21 samples: one is left over
  EXPECT_EQ(source->steps_in(4), 21);   // 84 samples
  EXPECT_EQ(source->steps_in(0.5), 2);  // 10.5 samples
  EXPECT_EQ(source->steps_in(0.1), 0);
}

TEST(SampleSourceTest, StepAndIndexGiveEpochAndPosition) {
  const auto source = SampleSource::create(counting_samples({211}, 10),
                                           {.global_batch_size = 4, .micro_batch_size = 1});
  EXPECT_EQ(source->locate(13, 2).epoch, 2);  // 54 = 2 * 21 + 12
  EXPECT_EQ(source->locate(13, 2).position, 12);
}

TEST(SampleSourceTest, MicroBatchSizeDoesNotChangeTheGlobalBatch) {
  std::vector<std::vector<int32_t>> batches;
  for (const int64_t micro_batch : {1, 2, 3, 6}) {
    const auto source =
        SampleSource::create(counting_samples({200}, 4),
                             {.global_batch_size = 6, .micro_batch_size = micro_batch, .seed = 9});
    std::vector<int32_t> all;
    for (int64_t micro = 0; micro < source->num_micro_batches(); ++micro) {
      MicroBatch batch;
      ASSERT_TRUE(source->fill(11, micro, batch));
      all.insert(all.end(), batch.tokens.begin(), batch.tokens.end());
    }
    batches.push_back(all);
  }
  for (const auto& batch : batches) EXPECT_EQ(batch, batches.front());
}

TEST(SampleSourceTest, RowsBeyondTheSamplesHaveNoLoss) {
  const Samples samples = counting_samples({9}, 2);
  MicroBatch batch;
  ASSERT_TRUE(fill_rows(samples, {3}, 2, batch));
  EXPECT_THAT(batch.tokens, ElementsAre(6, 7, 0, 0));
  EXPECT_THAT(batch.labels, ElementsAre(7, 8, -1, -1));
  ASSERT_TRUE(fill_rows(samples, {}, 2, batch));
  EXPECT_THAT(batch.labels, ElementsAre(-1, -1, -1, -1));
}

TEST(SampleSourceTest, LessThanAGlobalBatchAndSizesThatDoNotDivideAreRefused) {
  const auto few = SampleSource::create(counting_samples({32}, 8),
                                        {.global_batch_size = 4, .micro_batch_size = 1});
  ASSERT_FALSE(few);
  EXPECT_EQ(few.error().code, ErrorCode::kInvalidArgument);
  EXPECT_THAT(few.error().message, HasSubstr("32 tokens"));
  EXPECT_THAT(few.error().message, HasSubstr("3 samples"));
  EXPECT_THAT(few.error().hint, HasSubstr("globalBatchSize"));
  EXPECT_TRUE(SampleSource::create(counting_samples({33}, 8),
                                   {.global_batch_size = 4, .micro_batch_size = 1}));
  EXPECT_EQ(SampleSource::create(counting_samples({99}, 8),
                                 {.global_batch_size = 4, .micro_batch_size = 3})
                .error()
                .code,
            ErrorCode::kInvalidArgument);
}

}  // namespace
}  // namespace lockstep::runtime

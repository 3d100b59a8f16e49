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

// 20 and 7 samples by 2 to 1, in batches of 6: 4 of the one and 2 of the other in every step.
TEST(SampleSourceTest, AMixtureGivesEverySampleOfASourceOncePerPass) {
  const auto mix = [] {
    std::vector<Samples> parts;
    parts.push_back(counting_samples({201}, 10));
    parts.push_back(counting_samples({71}, 10));
    return SampleSource::create(
        Samples::join(std::move(parts)),
        {.global_batch_size = 6, .micro_batch_size = 2, .seed = 5, .shares = {2, 1}});
  };
  const auto source = mix();
  EXPECT_EQ(source->samples_per_epoch(), 27);
  std::vector<std::vector<int64_t>> seen(2);
  for (int64_t step = 0; step < 35; ++step) {
    for (int64_t index = 0; index < 6; ++index) {
      const Samples::Place place = source->samples().place_of(source->sample_of(step, index));
      EXPECT_EQ(source->locate(step, index).source, place.source);
      seen[place.source].push_back(place.sample);
    }
    ASSERT_EQ(seen[0].size(), static_cast<std::size_t>(4 * (step + 1)));
  }
  for (const auto& [samples, num] : {std::pair(seen[0], 20), std::pair(seen[1], 7)}) {
    std::vector<std::vector<int64_t>> passes;
    for (std::size_t pass = 0; (pass + 1) * static_cast<std::size_t>(num) <= samples.size();
         ++pass) {
      passes.emplace_back(samples.begin() + static_cast<std::ptrdiff_t>(pass) * num,
                          samples.begin() + static_cast<std::ptrdiff_t>(pass + 1) * num);
      EXPECT_EQ(std::set(passes[pass].begin(), passes[pass].end()).size(),
                static_cast<std::size_t>(num));
    }
    ASSERT_GE(passes.size(), 7U);
    EXPECT_NE(passes[0], passes[1]) << "every pass has an order of its own";
  }
}

// So data.train and a mixture of one source are the same run.
TEST(SampleSourceTest, TheFirstSourceIsShuffledAsIfItWereAlone) {
  std::vector<Samples> parts;
  parts.push_back(counting_samples({201}, 10));
  parts.push_back(counting_samples({201}, 10));
  const auto mixed = SampleSource::create(
      Samples::join(std::move(parts)),
      {.global_batch_size = 2, .micro_batch_size = 1, .seed = 5, .shares = {1, 1}});
  const auto alone = SampleSource::create(
      counting_samples({201}, 10), {.global_batch_size = 1, .micro_batch_size = 1, .seed = 5});
  int64_t same = 0;
  for (int64_t step = 0; step < 20; ++step) {
    EXPECT_EQ(mixed->sample_of(step, 0), alone->sample_of(step, 0));
    same += mixed->sample_of(step, 1) - 20 == alone->sample_of(step, 0) ? 1 : 0;
  }
  EXPECT_LT(same, 10) << "the second has an order of its own";
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

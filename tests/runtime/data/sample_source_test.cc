#include "runtime/data/sample_source.h"

#include <algorithm>
#include <map>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/runtime/data/temp_folder.h"

namespace lockstep::runtime {
namespace {

using common::ErrorCode;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class SampleSourceTest : public ::testing::Test {
 protected:
  common::Result<SampleSource> create(const std::string& text, const SampleSourceOptions& options) {
    write_text(folder_ / "text", text);
    return SampleSource::create(Corpus::open({folder_ / "text"}).value(), options);
  }

  TempFolder folder_;
};

TEST_F(SampleSourceTest, LabelsAreTheInputsShiftedByOne) {
  const auto source = create(
      "abcdefg",
      {.sequence_length = 3, .global_batch_size = 2, .micro_batch_size = 2, .shuffle = false});
  std::vector<int32_t> tokens(6);
  std::vector<int32_t> labels(6);
  source->fill_micro_batch(0, 0, tokens, labels);
  EXPECT_THAT(tokens, ElementsAre('a', 'b', 'c', 'd', 'e', 'f'));
  EXPECT_THAT(labels, ElementsAre('b', 'c', 'd', 'e', 'f', 'g'));
}

// 211 tokens are 21 samples of 10; batches of 4 make 5 steps an epoch and drop one sample.
TEST_F(SampleSourceTest, AnEpochSeesEverySampleAtMostOnceAndCountsWhatItDrops) {
  std::string text;
  for (int i = 0; i < 211; ++i) text.push_back(static_cast<char>(1 + i));
  const auto source = create(text, {.sequence_length = 10,
                                    .global_batch_size = 4,
                                    .micro_batch_size = 2,
                                    .shuffle = true,
                                    .seed = 5});
  EXPECT_EQ(source->samples_per_epoch(), 21);
  EXPECT_EQ(source->steps_per_epoch(), 5);
  EXPECT_EQ(source->samples_dropped_per_epoch(), 1);
  for (int64_t epoch = 0; epoch < 3; ++epoch) {
    std::map<int32_t, int> seen;
    for (int64_t step = epoch * 5; step < epoch * 5 + 5; ++step) {
      for (int64_t micro = 0; micro < source->num_micro_batches(); ++micro) {
        std::vector<int32_t> tokens(20);
        std::vector<int32_t> labels(20);
        source->fill_micro_batch(step, micro, tokens, labels);
        ++seen[tokens[0]];
        ++seen[tokens[10]];
        EXPECT_EQ(tokens[0] % 10, 1);
        EXPECT_EQ(labels[9], (tokens[9] + 1) % 256);
      }
    }
    EXPECT_EQ(seen.size(), 20u);
    for (const auto& [first, count] : seen) EXPECT_EQ(count, 1) << first;
  }
}

TEST_F(SampleSourceTest, StepAndIndexGiveEpochAndPosition) {
  const auto source =
      create(std::string(211, 'x'),
             {.sequence_length = 10, .global_batch_size = 4, .micro_batch_size = 1});
  const SamplePosition at = source->locate(13, 2);
  EXPECT_EQ(at.epoch, 2);
  EXPECT_EQ(at.position, 3 * 4 + 2);
}

TEST_F(SampleSourceTest, MicroBatchSizeDoesNotChangeTheGlobalBatch) {
  std::string text;
  for (int i = 0; i < 200; ++i) text.push_back(static_cast<char>(1 + i));
  std::vector<std::vector<int32_t>> batches;
  for (const int64_t micro_batch : {1, 2, 3, 6}) {
    const auto source = create(
        text,
        {.sequence_length = 4, .global_batch_size = 6, .micro_batch_size = micro_batch, .seed = 9});
    std::vector<int32_t> batch;
    for (int64_t micro = 0; micro < source->num_micro_batches(); ++micro) {
      std::vector<int32_t> tokens(static_cast<std::size_t>(micro_batch * 4));
      std::vector<int32_t> labels(tokens.size());
      source->fill_micro_batch(11, micro, tokens, labels);
      batch.insert(batch.end(), tokens.begin(), tokens.end());
    }
    batches.push_back(batch);
  }
  for (const auto& batch : batches) EXPECT_EQ(batch, batches.front());
}

TEST_F(SampleSourceTest, ACorpusThatIsTooShortIsRefusedWithTheNumbers) {
  const SampleSourceOptions options{
      .sequence_length = 8, .global_batch_size = 4, .micro_batch_size = 1};
  const auto no_sample = create(std::string(8, 'x'), options);
  ASSERT_FALSE(no_sample);
  EXPECT_EQ(no_sample.error().code, ErrorCode::kInvalidArgument);
  EXPECT_THAT(no_sample.error().message, HasSubstr("8 tokens"));
  EXPECT_THAT(no_sample.error().message, HasSubstr("needs 9"));
  EXPECT_THAT(no_sample.error().hint, HasSubstr("sequenceLength"));

  const auto no_batch = create(std::string(32, 'x'), options);
  ASSERT_FALSE(no_batch);
  EXPECT_THAT(no_batch.error().message, HasSubstr("3 samples"));
  EXPECT_THAT(no_batch.error().message, HasSubstr("needs 33 tokens"));
  EXPECT_THAT(no_batch.error().hint, HasSubstr("globalBatchSize"));

  EXPECT_TRUE(create(std::string(33, 'x'), options));
}

TEST_F(SampleSourceTest, BatchSizesThatDoNotDivideAreRefused) {
  const auto source = create(std::string(99, 'x'),
                             {.sequence_length = 8, .global_batch_size = 4, .micro_batch_size = 3});
  ASSERT_FALSE(source);
  EXPECT_EQ(source.error().code, ErrorCode::kInvalidArgument);
}

}  // namespace
}  // namespace lockstep::runtime

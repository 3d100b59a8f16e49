#include "runtime/data/samples.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/runtime/data/token_data.h"

namespace lockstep::runtime {
namespace {

using common::ErrorCode;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

struct Row {
  std::vector<int32_t> tokens, labels, positions;
  bool has_borders = false;
};

Row read(const Samples& samples, int64_t index) {
  const auto length = static_cast<std::size_t>(samples.sequence_length());
  Row row{std::vector<int32_t>(length, -7), std::vector<int32_t>(length, -7),
          std::vector<int32_t>(length, -7)};
  const auto has_borders =
      samples.read(index, {.tokens = row.tokens, .labels = row.labels, .positions = row.positions});
  EXPECT_TRUE(has_borders);
  row.has_borders = *has_borders;
  return row;
}

TEST(SamplesTest, PackingCutsTheStreamAndPositionsRestartAtEveryDocument) {
  const Samples samples = counting_samples({3, 1, 5, 6}, 5);
  EXPECT_EQ(samples.num_samples(), 2);  // 15 tokens; the last of them is nobody's input
  const Row first = read(samples, 0);
  EXPECT_THAT(first.tokens, ElementsAre(0, 1, 2, 3, 4));
  EXPECT_THAT(first.labels, ElementsAre(1, 2, -1, -1, 5));
  EXPECT_THAT(first.positions, ElementsAre(0, 1, 2, 0, 0));
  EXPECT_TRUE(first.has_borders);
  const Row second = read(samples, 1);  // goes on in a document: positions start anew
  EXPECT_THAT(second.tokens, ElementsAre(5, 6, 7, 8, 9));
  EXPECT_THAT(second.labels, ElementsAre(6, 7, 8, -1, 10));
  EXPECT_THAT(second.positions, ElementsAre(0, 1, 2, 3, 0));
}

TEST(SamplesTest, ASampleOfOneDocumentHasNoBorders) {
  const Samples samples = counting_samples({10, 11}, 5);
  EXPECT_FALSE(read(samples, 0).has_borders);
  EXPECT_FALSE(read(samples, 1).has_borders);  // it ends where the document ends
  const Row next = read(samples, 2);           // it begins where a document begins
  EXPECT_FALSE(next.has_borders);
  EXPECT_THAT(next.positions, ElementsAre(0, 1, 2, 3, 4));
}

TEST(SamplesTest, WithoutPackingASampleIsADocumentFilledUpOrCut) {
  const Samples samples = counting_samples({3, 7, 5, 1}, 5, /*packing=*/false);
  EXPECT_EQ(samples.num_samples(), 4);
  EXPECT_THAT(read(samples, 0).tokens, ElementsAre(0, 1, 2, 0, 0));
  EXPECT_THAT(read(samples, 0).labels, ElementsAre(1, 2, -1, -1, -1));
  EXPECT_THAT(read(samples, 1).tokens, ElementsAre(3, 4, 5, 6, 7));
  EXPECT_THAT(read(samples, 1).labels, ElementsAre(4, 5, 6, 7, 8));
  EXPECT_THAT(read(samples, 2).labels, ElementsAre(11, 12, 13, 14, -1));
  EXPECT_THAT(read(samples, 3).labels, ElementsAre(-1, -1, -1, -1, -1));
  for (int64_t i = 0; i < 4; ++i) {
    EXPECT_FALSE(read(samples, i).has_borders);
    EXPECT_THAT(read(samples, i).positions, ElementsAre(0, 1, 2, 3, 4));
  }
  EXPECT_EQ(samples.truncation().documents, 1);
  EXPECT_EQ(samples.truncation().tokens, 2);
}

TEST(SamplesTest, CountedLabelsAreThoseThatAreRead) {
  for (const bool packing : {true, false}) {
    const Samples samples = counting_samples({1, 2, 9, 3, 3, 12, 1, 1, 4}, 4, packing);
    for (int64_t i = 0; i < samples.num_samples(); ++i) {
      int64_t count = 0;
      for (const int32_t label : read(samples, i).labels) count += label >= 0 ? 1 : 0;
      EXPECT_EQ(*samples.count_labels(i), count) << packing << " " << i;
    }
  }
}

TEST(SamplesTest, DataShorterThanASampleIsRefusedWithTheNumbers) {
  const auto samples = Samples::create(std::make_unique<CountingTokens>(std::vector<int64_t>{8}),
                                       {.sequence_length = 8});
  ASSERT_FALSE(samples);
  EXPECT_EQ(samples.error().code, ErrorCode::kInvalidArgument);
  EXPECT_THAT(samples.error().message, HasSubstr("8 tokens"));
  EXPECT_THAT(samples.error().message, HasSubstr("needs 9"));
  EXPECT_THAT(samples.error().hint, HasSubstr("sequenceLength"));
}

TEST(SamplesTest, ThoseOfSeveralSourcesStandBehindEachOtherAndReachIntoNoOther) {
  for (const bool packing : {true, false}) {
    std::vector<Samples> parts;
    parts.push_back(counting_samples({3, 4}, 3, packing));
    parts.push_back(counting_samples({5, 2, 5}, 3, packing));
    const Samples all = Samples::join(std::move(parts));
    ASSERT_EQ(all.num_sources(), 2U);
    EXPECT_EQ(all.num_samples(), 2 + 3);
    EXPECT_EQ(all.num_samples_of(1), 3);
    EXPECT_EQ(all.num_tokens(), 19);
    EXPECT_EQ(all.num_documents(), 5);
    EXPECT_EQ(all.fingerprint(), "counting+counting");
    EXPECT_EQ(all.truncation().documents, packing ? 0 : 3);
    const Samples alone = counting_samples({5, 2, 5}, 3, packing);
    for (int64_t i = 0; i < 3; ++i) {
      const Samples::Place place = all.place_of(2 + i);
      EXPECT_EQ(place.source, 1U);
      EXPECT_EQ(place.sample, i);
      EXPECT_EQ(all.index_of(place), 2 + i);
      EXPECT_EQ(read(all, 2 + i).tokens, read(alone, i).tokens);
      EXPECT_EQ(read(all, 2 + i).labels, read(alone, i).labels);
      EXPECT_EQ(read(all, 2 + i).positions, read(alone, i).positions);
      EXPECT_EQ(*all.count_labels(2 + i), *alone.count_labels(i));
      EXPECT_EQ(all.count_predictions(2 + i), alone.count_predictions(i));
    }
  }
}

TEST(SamplesTest, DamageIsTold) {
  const Samples samples = counting_samples({20}, 5, true, 7);
  std::vector<int32_t> row(5);
  EXPECT_TRUE(samples.read(0, {row, row, row}));
  EXPECT_EQ(samples.read(1, {row, row, row}).error().code, ErrorCode::kDataLoss);
}

}  // namespace
}  // namespace lockstep::runtime

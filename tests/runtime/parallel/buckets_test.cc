#include "runtime/parallel/buckets.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runtime/common/exchange_bytes.h"

namespace lockstep::runtime {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

constexpr int64_t kChunk = 1024;
constexpr int64_t kChunkBytes = 4 * kChunk;

std::vector<UnitSlices> units_of(const std::vector<int64_t>& chunks, int world_size) {
  std::vector<int64_t> elems;
  for (const int64_t count : chunks) elems.push_back(count * kChunk);
  return plan_units(elems, world_size);
}

TEST(BucketsTest, JoinsSmallNeighboursAndSplitsLargeUnits) {
  const auto buckets = plan_buckets(units_of({2, 1, 7, 2, 1}, 1), 3 * kChunkBytes);
  ASSERT_EQ(buckets.size(), 5U);
  EXPECT_THAT(buckets[0].pieces,
              ElementsAre(BucketPiece{4, 0, kChunk}, BucketPiece{3, 0, 2 * kChunk}));
  EXPECT_THAT(buckets[1].pieces, ElementsAre(BucketPiece{2, 0, 3 * kChunk}));
  EXPECT_THAT(buckets[2].pieces, ElementsAre(BucketPiece{2, 3 * kChunk, 3 * kChunk}));
  EXPECT_THAT(buckets[3].pieces, ElementsAre(BucketPiece{2, 6 * kChunk, kChunk}));
  EXPECT_THAT(buckets[4].pieces,
              ElementsAre(BucketPiece{1, 0, kChunk}, BucketPiece{0, 0, 2 * kChunk}));
  EXPECT_EQ(buckets[0].name(), "units 4 to 3");
  EXPECT_EQ(buckets[1].name(), "unit 2");
}

TEST(BucketsTest, EveryElementOfASliceIsInOneBucketOfAboutTheSize) {
  for (const int world_size : {1, 2, 3, 8}) {
    const auto layouts = units_of({0, 1, 5, 64, 3, 3, 3, 17}, world_size);
    for (const int64_t bucket_bytes :
         {int64_t{1}, kChunkBytes, 10 * kChunkBytes, kChunkBytes << 20}) {
      std::vector<int64_t> next(layouts.size());
      for (const Bucket& bucket : plan_buckets(layouts, bucket_bytes)) {
        int64_t slice_elems = 0;
        for (const BucketPiece& piece : bucket.pieces) {
          EXPECT_EQ(piece.begin_elem, next[static_cast<size_t>(piece.unit)]);
          next[static_cast<size_t>(piece.unit)] += piece.num_elems;
          slice_elems += piece.num_elems;
        }
        EXPECT_EQ(bucket.slice_elems, slice_elems);
        // One chunk per rank is the least that can travel.
        EXPECT_LE(slice_elems * world_size * 4,
                  std::max(bucket_bytes + kChunkBytes * world_size, kChunkBytes * world_size));
      }
      for (size_t unit = 0; unit < layouts.size(); ++unit) {
        EXPECT_EQ(next[unit], layouts[unit].slice_elems);
      }
    }
  }
}

TEST(BucketsTest, ASmallModelTravelsInSmallerExchanges) {
  using common::exchange_bytes;
  const int64_t mib = 1 << 20;
  EXPECT_EQ(exchange_bytes(25 * mib, 1600 * mib), 25 * mib);
  EXPECT_EQ(exchange_bytes(25 * mib, 400 * mib), 25 * mib);
  EXPECT_EQ(exchange_bytes(25 * mib, 80 * mib), 5 * mib);
  EXPECT_EQ(exchange_bytes(25 * mib, 2 * mib), mib);
  EXPECT_EQ(exchange_bytes(mib / 2, 2 * mib), mib / 2) << "what is asked for is never exceeded";
  EXPECT_EQ(exchange_bytes(25 * mib, 0), mib);
}

TEST(BucketsTest, FrozenUnitsTravelInNone) {
  const auto layouts = units_of({1, 1, 7, 1}, 1);
  const auto buckets = plan_buckets(layouts, 3 * kChunkBytes, {false, true, true, false});
  ASSERT_EQ(buckets.size(), 1U);
  EXPECT_THAT(buckets[0].pieces, ElementsAre(BucketPiece{3, 0, kChunk}, BucketPiece{0, 0, kChunk}));
}

TEST(BucketProgressTest, ABucketIsCompleteWithItsLastUnitInEveryRound) {
  const auto layouts = units_of({1, 1, 4}, 1);
  const auto buckets = plan_buckets(layouts, 2 * kChunkBytes);
  BucketProgress progress(buckets, layouts.size());
  EXPECT_EQ(progress.num_buckets_of(2), 2U);
  for (int round = 0; round < 2; ++round) {
    EXPECT_THAT(progress.finish_unit(2), ElementsAre(0, 1));
    EXPECT_THAT(progress.finish_unit(1), IsEmpty());
    EXPECT_THAT(progress.finish_unit(0), ElementsAre(2));
  }
}

}  // namespace
}  // namespace lockstep::runtime

#include "runtime/data/sample_order.h"

#include <algorithm>
#include <vector>

#include <gtest/gtest.h>

namespace lockstep::runtime {
namespace {

std::vector<int64_t> whole_epoch(const SampleOrder& order, int64_t epoch) {
  std::vector<int64_t> samples;
  for (int64_t i = 0; i < order.num_samples; ++i) samples.push_back(sample_at(order, epoch, i));
  return samples;
}

TEST(SampleOrderTest, IsABijectionForEverySizeUpTo600AndAroundPowersOfTwo) {
  std::vector<int64_t> sizes;
  for (int64_t size = 1; size <= 600; ++size) sizes.push_back(size);
  for (int64_t power = 1024; power <= 65536; power *= 2) {
    sizes.insert(sizes.end(), {power - 1, power, power + 1});
  }
  for (const int64_t size : sizes) {
    std::vector<int64_t> samples = whole_epoch({.num_samples = size, .seed = 7}, size % 3);
    std::sort(samples.begin(), samples.end());
    for (int64_t i = 0; i < size; ++i) ASSERT_EQ(samples[static_cast<std::size_t>(i)], i) << size;
  }
}

TEST(SampleOrderTest, StaysInRangeForHugeSizes) {
  const SampleOrder order{.num_samples = (int64_t{1} << 61) + 12345, .seed = 3};
  for (int64_t i = 0; i < 1000; ++i) {
    const int64_t sample = sample_at(order, i, order.num_samples - 1 - i);
    ASSERT_TRUE(sample >= 0 && sample < order.num_samples);
  }
}

TEST(SampleOrderTest, IsTheIdentityWithoutShuffle) {
  const SampleOrder order{.num_samples = 100, .seed = 7, .shuffle = false};
  for (int64_t i = 0; i < 100; ++i) EXPECT_EQ(sample_at(order, 5, i), i);
}

TEST(SampleOrderTest, SeedAndEpochGiveOtherOrders) {
  const SampleOrder order{.num_samples = 1000, .seed = 7};
  EXPECT_EQ(whole_epoch(order, 0), whole_epoch(order, 0));
  EXPECT_NE(whole_epoch(order, 0), whole_epoch(order, 1));
  EXPECT_NE(whole_epoch(order, 0), whole_epoch({.num_samples = 1000, .seed = 8}, 0));
}

// Over 3000 epochs a sample lands in each eighth of the epoch 375 times, standard deviation 18.1;
// the bounds are five of them.
TEST(SampleOrderTest, SpreadsASampleOverTheWholeEpoch) {
  const SampleOrder order{.num_samples = 1000, .seed = 7};
  std::vector<int> hits(8);
  for (int64_t epoch = 0; epoch < 3000; ++epoch) {
    ++hits[static_cast<std::size_t>(sample_at(order, epoch, 0) / 125)];
  }
  for (const int count : hits) {
    EXPECT_GT(count, 375 - 91);
    EXPECT_LT(count, 375 + 91);
  }
}

// The order is part of what a checkpoint means: a change would repeat and miss samples on resume.
TEST(SampleOrderTest, IsTheSameForever) {
  const SampleOrder order{.num_samples = 10, .seed = 42};
  EXPECT_EQ(whole_epoch(order, 0), (std::vector<int64_t>{9, 3, 7, 8, 0, 4, 1, 2, 5, 6}));
}

}  // namespace
}  // namespace lockstep::runtime

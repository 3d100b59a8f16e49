#include "runtime/data/batch_loader.h"

#include <algorithm>
#include <random>

#include <gtest/gtest.h>

#include "tests/runtime/data/token_data.h"

namespace lockstep::runtime {
namespace {

using common::ErrorCode;

SampleSource source_of(int64_t num_samples, int64_t global, int64_t micro, int64_t seed = 5) {
  return SampleSource::create(
             counting_samples({num_samples * 3 + 1}, 3),
             {.global_batch_size = global, .micro_batch_size = micro, .seed = seed})
      .value();
}

// The samples of a batch: sample i of these sources has tokens 3i, 3i + 1, 3i + 2.
std::vector<int64_t> samples_in(const MicroBatch& batch) {
  std::vector<int64_t> samples;
  for (std::size_t i = 0; i < batch.tokens.size(); i += 3) samples.push_back(batch.tokens[i] / 3);
  return samples;
}

TEST(BatchLoaderTest, GivesTheSameBatchesInOrderWithAnyNumberOfThreads) {
  const SampleSource source = source_of(50, 6, 2);
  for (const int64_t threads : {0, 1, 2, 7}) {
    for (const int64_t prefetch : {1, 2, 5}) {
      BatchLoader loader(source, {.first_step = 3,
                                  .end_step = 40,
                                  .micro_batches = {2, 0},
                                  .num_threads = threads,
                                  .prefetch_batches = prefetch});
      for (int64_t step = 3; step < 40; ++step) {
        for (const int64_t micro : {2, 0}) {
          const auto batch = loader.next();
          ASSERT_TRUE(batch);
          EXPECT_EQ((*batch)->step, step);
          EXPECT_EQ((*batch)->micro_batch, micro);
          MicroBatch wanted;
          ASSERT_TRUE(source.fill(step, micro, wanted));
          EXPECT_EQ((*batch)->data.tokens, wanted.tokens);
          EXPECT_EQ((*batch)->data.labels, wanted.labels);
          EXPECT_EQ((*batch)->step_labels.has_value(), micro == 2);
          if (micro == 2) {
            EXPECT_EQ(*(*batch)->step_labels, 18);
          }
        }
      }
    }
  }
}

// Tokens 60 to 62 are sample 20, which step 10 of unshuffled batches of two reads.
TEST(BatchLoaderTest, DamageIsToldAtTheStepThatMeetsItAndNotBefore) {
  const SampleSource source =
      SampleSource::create(counting_samples({301}, 3, true, 61),
                           {.global_batch_size = 2, .micro_batch_size = 1, .shuffle = false})
          .value();
  for (const int64_t threads : {0, 3}) {
    BatchLoader loader(source, {.first_step = 0,
                                .end_step = 40,
                                .micro_batches = {1, 0},
                                .num_threads = threads,
                                .prefetch_batches = 8});
    for (int64_t batch = 0; batch < 20; ++batch) ASSERT_TRUE(loader.next()) << batch;
    const auto failed = loader.next();  // step 10 counts the labels of all its samples
    ASSERT_FALSE(failed);
    EXPECT_EQ(failed.error().code, ErrorCode::kDataLoss);
    EXPECT_EQ(failed.error().message, "token 61");
  }
}

TEST(BatchLoaderTest, StopsWithBatchesUnusedOrNoneToFill) {
  const SampleSource source = source_of(50, 6, 2);
  { const BatchLoader unused(source, {.end_step = 9, .micro_batches = {0, 1}}); }
  { const BatchLoader empty(source, {.first_step = 9, .end_step = 9, .micro_batches = {0}}); }
  BatchLoader loader(source, {.end_step = 1, .micro_batches = {0}, .prefetch_batches = 100});
  EXPECT_TRUE(loader.next());
}

// The micro-batches of `rank`: every W-th, or a run of neighbours, as strategies deal them out.
std::vector<int64_t> micro_batches_of(int64_t rank, int64_t ranks, int64_t count,
                                      bool interleaved) {
  std::vector<int64_t> mine;
  for (int64_t i = 0; i < count / ranks; ++i) {
    mine.push_back(interleaved ? i * ranks + rank : rank * (count / ranks) + i);
  }
  return mine;
}

// Over random sizes, with restarts at any step on any rank count that works: the samples that all
// ranks consume, in the order of step and micro-batch, are those of one uninterrupted rank, and
// every epoch holds every sample once.
TEST(BatchLoaderTest, ConsumesEverySampleOncePerEpochWhateverRestartsAndRankChanges) {
  std::mt19937_64 random(7);
  const auto pick = [&](int64_t least, int64_t most) {
    return least + static_cast<int64_t>(random() % static_cast<uint64_t>(most - least + 1));
  };
  for (int round = 0; round < 150; ++round) {
    const int64_t micro = pick(1, 3);
    const int64_t num_micro = pick(1, 12);
    const int64_t global = micro * num_micro;
    const int64_t num_samples = pick(global, 6 * global);
    const SampleSource source = source_of(num_samples, global, micro, round);
    const int64_t steps = pick(1, 3 * num_samples / global + 1);
    std::vector<int64_t> consumed(static_cast<std::size_t>(steps * global), -1);
    for (int64_t step = 0; step < steps;) {
      const int64_t end = pick(step + 1, steps);  // of this attempt
      int64_t ranks = pick(1, num_micro);
      while (num_micro % ranks != 0) --ranks;
      const bool interleaved = pick(0, 1) == 1;
      for (int64_t rank = 0; rank < ranks; ++rank) {
        const std::vector<int64_t> mine = micro_batches_of(rank, ranks, num_micro, interleaved);
        // The attempt had planned to go on: what was read ahead must leave no trace.
        BatchLoader loader(source, {.first_step = step,
                                    .end_step = steps,
                                    .micro_batches = mine,
                                    .num_threads = pick(0, 2),
                                    .prefetch_batches = pick(1, 4)});
        for (int64_t n = 0; n < (end - step) * static_cast<int64_t>(mine.size()); ++n) {
          const auto batch = loader.next();
          ASSERT_TRUE(batch);
          int64_t place = (*batch)->step * global + (*batch)->micro_batch * micro;
          for (const int64_t sample : samples_in((*batch)->data)) {
            int64_t& slot = consumed[static_cast<std::size_t>(place++)];
            ASSERT_EQ(slot, -1) << "consumed twice";
            slot = sample;
          }
        }
      }
      step = end;
    }
    for (int64_t at = 0; at < steps * global; ++at) {
      ASSERT_EQ(consumed[static_cast<std::size_t>(at)], source.sample_of(at / global, at % global));
    }
    for (int64_t begin = 0; begin + num_samples <= steps * global; begin += num_samples) {
      std::vector<int64_t> epoch(consumed.begin() + begin, consumed.begin() + begin + num_samples);
      std::sort(epoch.begin(), epoch.end());
      for (int64_t i = 0; i < num_samples; ++i) ASSERT_EQ(epoch[static_cast<std::size_t>(i)], i);
    }
  }
}

}  // namespace
}  // namespace lockstep::runtime

#include "runtime/data/sample_source.h"

#include <algorithm>
#include <cassert>
#include <string>
#include <utility>
#include <vector>

namespace lockstep::runtime {

using common::Error;
using common::ErrorCode;
using common::Result;

Result<SampleSource> SampleSource::create(Corpus corpus, const SampleSourceOptions& options) {
  const int64_t length = options.sequence_length;
  const int64_t batch = options.global_batch_size;
  const int64_t micro = options.micro_batch_size;
  if (length < 1 || batch < 1 || micro < 1 || batch % micro != 0) {
    return Error{ErrorCode::kInvalidArgument,
                 "sequenceLength " + std::to_string(length) + ", globalBatchSize " +
                     std::to_string(batch) + " and microBatchSize " + std::to_string(micro) +
                     " must be at least 1, and microBatchSize must divide globalBatchSize",
                 ""};
  }
  const std::string tokens = "the corpus has " + std::to_string(corpus.num_tokens()) + " tokens";
  const int64_t num_samples = (corpus.num_tokens() - 1) / length;
  if (num_samples < 1) {
    return Error{ErrorCode::kInvalidArgument,
                 tokens + ", one sample of sequenceLength " + std::to_string(length) + " needs " +
                     std::to_string(length + 1),
                 "lower train.data.sequenceLength or add text to train.data.train"};
  }
  if (num_samples < batch) {
    return Error{ErrorCode::kInvalidArgument,
                 tokens + ", that is " + std::to_string(num_samples) +
                     " samples of sequenceLength " + std::to_string(length) +
                     ": less than one global batch of " + std::to_string(batch) +
                     " samples, which needs " + std::to_string(batch * length + 1) + " tokens",
                 "lower train.batch.globalBatchSize or train.data.sequenceLength, or add text to "
                 "train.data.train"};
  }
  const SampleOrder order{.num_samples = num_samples,
                          .seed = static_cast<uint64_t>(options.seed),
                          .shuffle = options.shuffle};
  return SampleSource(std::move(corpus), options, order);
}

SampleSource::SampleSource(Corpus corpus, const SampleSourceOptions& options, SampleOrder order)
    : corpus_(std::move(corpus)), options_(options), order_(order) {}

SamplePosition SampleSource::locate(int64_t step, int64_t index) const {
  assert(step >= 0 && index >= 0 && index < options_.global_batch_size);
  return SamplePosition{.epoch = step / steps_per_epoch(),
                        .position = step % steps_per_epoch() * options_.global_batch_size + index};
}

void SampleSource::fill_micro_batch(int64_t step, int64_t micro_index, std::span<int32_t> tokens,
                                    std::span<int32_t> labels) const {
  const auto length = static_cast<std::size_t>(options_.sequence_length);
  assert(micro_index >= 0 && micro_index < num_micro_batches());
  assert(tokens.size() == length * static_cast<std::size_t>(options_.micro_batch_size));
  assert(labels.size() == tokens.size());
  std::vector<int32_t> window(length + 1);
  for (int64_t row = 0; row < options_.micro_batch_size; ++row) {
    const SamplePosition at = locate(step, micro_index * options_.micro_batch_size + row);
    corpus_.read(sample_at(order_, at.epoch, at.position) * options_.sequence_length, window);
    const auto begin = static_cast<std::size_t>(row) * length;
    std::copy(window.begin(), window.end() - 1, tokens.subspan(begin, length).begin());
    std::copy(window.begin() + 1, window.end(), labels.subspan(begin, length).begin());
  }
}

}  // namespace lockstep::runtime

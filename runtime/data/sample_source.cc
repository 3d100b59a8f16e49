#include "runtime/data/sample_source.h"

#include <cassert>
#include <cmath>
#include <span>
#include <string>
#include <utility>

#include "runtime/data/sample_order.h"

namespace lockstep::runtime {

using common::Error;
using common::ErrorCode;
using common::Result;

namespace {

// Sources are shuffled apart from each other; the first as if it were alone.
uint64_t seed_of_source(int64_t seed, std::size_t source) {
  return static_cast<uint64_t>(seed) + source * 0x9e3779b97f4a7c15u;
}

}  // namespace

Result<void> fill_rows(const Samples& from, const std::vector<int64_t>& samples, int64_t most,
                       MicroBatch& to) {
  const auto length = static_cast<std::size_t>(from.sequence_length());
  const std::size_t num_elems = length * static_cast<std::size_t>(most * from.rows_per_sample());
  assert(static_cast<int64_t>(samples.size()) <= most);
  to.samples = samples;
  to.row_tokens = from.sequence_length();
  to.tokens.assign(num_elems, 0);
  to.labels.assign(num_elems, kNoLabel);
  to.positions.resize(num_elems);
  to.has_borders = false;
  for (std::size_t i = 0; i < num_elems; ++i) {
    to.positions[i] = static_cast<int32_t>(i % length);
  }
  const auto per_sample = static_cast<std::size_t>(from.rows_per_sample());
  for (std::size_t row = 0; row < samples.size() * per_sample; ++row) {
    const int64_t index =
        samples[row / per_sample] * from.rows_per_sample() + static_cast<int64_t>(row % per_sample);
    const auto part = [&](std::vector<int32_t>& all) {
      return std::span(all).subspan(row * length, length);
    };
    ASSIGN_OR_RETURN(const bool has_borders, from.read(index, {.tokens = part(to.tokens),
                                                               .labels = part(to.labels),
                                                               .positions = part(to.positions)}));
    to.has_borders = to.has_borders || has_borders;
  }
  return {};
}

Result<SampleSource> SampleSource::create(Samples samples, const SampleSourceOptions& options) {
  const int64_t length = samples.sequence_length();
  const int64_t batch = options.global_batch_size;
  const int64_t micro = options.micro_batch_size;
  if (batch < 1 || micro < 1 || batch % micro != 0) {
    return Error{ErrorCode::kInvalidArgument,
                 "globalBatchSize " + std::to_string(batch) + " and microBatchSize " +
                     std::to_string(micro) +
                     " must be at least 1, and microBatchSize must divide globalBatchSize",
                 ""};
  }
  if (samples.num_samples() < batch) {
    return Error{ErrorCode::kInvalidArgument,
                 "the corpus has " + std::to_string(samples.num_tokens()) + " tokens, that is " +
                     std::to_string(samples.num_samples()) + " samples of sequenceLength " +
                     std::to_string(length) + ": less than one global batch of " +
                     std::to_string(batch) + " samples",
                 "lower train.batch.globalBatchSize or train.data.sequenceLength, or add data"};
  }
  assert(options.shares.size() == samples.num_sources());
  return SampleSource(std::move(samples), options);
}

SampleSource::SampleSource(Samples samples, const SampleSourceOptions& options)
    : samples_(std::move(samples)), options_(options), mixture_(options.shares) {}

int64_t SampleSource::steps_in(double epochs) const {
  const double num_samples = epochs * static_cast<double>(samples_per_epoch());
  return static_cast<int64_t>(
      std::floor(num_samples / static_cast<double>(options_.global_batch_size)));
}

SamplePosition SampleSource::locate(int64_t step, int64_t index) const {
  assert(step >= 0 && index >= 0 && index < options_.global_batch_size);
  const Mixture::Turn turn = mixture_.at(step * options_.global_batch_size + index);
  const int64_t num_samples = samples_.num_samples_of(turn.source);
  return {.source = turn.source,
          .epoch = turn.before / num_samples,
          .position = turn.before % num_samples};
}

int64_t SampleSource::sample_of(int64_t step, int64_t index) const {
  const SamplePosition at = locate(step, index);
  const SampleOrder order{.num_samples = samples_.num_samples_of(at.source),
                          .seed = seed_of_source(options_.seed, at.source),
                          .shuffle = options_.shuffle};
  return samples_.index_of({at.source, sample_at(order, at.epoch, at.position)});
}

Result<void> SampleSource::fill(int64_t step, int64_t micro_index, MicroBatch& to) const {
  assert(micro_index >= 0 && micro_index < num_micro_batches());
  const int64_t rows = options_.micro_batch_size;
  std::vector<int64_t> samples;
  samples.reserve(static_cast<std::size_t>(rows));
  for (int64_t row = 0; row < rows; ++row) {
    samples.push_back(sample_of(step, micro_index * rows + row));
  }
  return fill_rows(samples_, samples, rows, to);
}

Result<int64_t> SampleSource::count_labels(int64_t step) const {
  int64_t count = 0;
  for (int64_t index = 0; index < options_.global_batch_size; ++index) {
    ASSIGN_OR_RETURN(const int64_t in_sample, samples_.count_labels(sample_of(step, index)));
    count += in_sample;
  }
  return count;
}

int64_t SampleSource::count_first_predictions(int64_t step) const {
  int64_t count = 0;
  for (int64_t index = 0; index < options_.global_batch_size; ++index) {
    count += samples_.count_predictions(sample_of(step, index) * samples_.rows_per_sample());
  }
  return count;
}

}  // namespace lockstep::runtime

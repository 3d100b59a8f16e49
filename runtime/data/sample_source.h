// Training samples by index: which tokens the micro-batches of a step consist of.
#pragma once

#include <cstdint>
#include <span>

#include "runtime/common/result.h"
#include "runtime/data/corpus.h"
#include "runtime/data/sample_order.h"

namespace lockstep::runtime {

struct SampleSourceOptions {
  int64_t sequence_length = 0;    // T
  int64_t global_batch_size = 0;  // samples per step
  int64_t micro_batch_size = 0;   // samples per micro-batch; divides global_batch_size
  bool shuffle = true;
  int64_t seed = 0;
};

// Where a global sample position lies.
struct SamplePosition {
  int64_t epoch = 0;
  int64_t position = 0;  // in the epoch, before shuffling
};

// Sample i has inputs stream[i*T, i*T + T) and labels shifted by one: inputs of different samples
// do not overlap. Step s takes positions [s*G, s*G + G) of the endless sequence of epochs; the end
// of an epoch that does not fill a global batch is dropped. So the data state is the step, on any
// rank count.
class SampleSource {
 public:
  // Takes the corpus. Errors: kInvalidArgument with the numbers if the corpus is shorter than one
  // sample or one global batch, or the batch sizes do not divide.
  static common::Result<SampleSource> create(Corpus corpus, const SampleSourceOptions& options);

  int64_t samples_per_epoch() const { return order_.num_samples; }
  int64_t steps_per_epoch() const { return samples_per_epoch() / options_.global_batch_size; }
  int64_t samples_dropped_per_epoch() const {
    return samples_per_epoch() % options_.global_batch_size;
  }
  int64_t num_micro_batches() const {
    return options_.global_batch_size / options_.micro_batch_size;
  }
  const Corpus& corpus() const { return corpus_; }

  // Where sample `index` (in [0, global_batch_size)) of `step` (from 0) lies.
  SamplePosition locate(int64_t step, int64_t index) const;

  // Fills one micro-batch of `step` (from 0).
  //   micro_index: in [0, num_micro_batches()).
  //   tokens, labels: [micro_batch_size * T] each, row-major; written. labels[t] = token after
  //   tokens[t].
  void fill_micro_batch(int64_t step, int64_t micro_index, std::span<int32_t> tokens,
                        std::span<int32_t> labels) const;

 private:
  SampleSource(Corpus corpus, const SampleSourceOptions& options, SampleOrder order);

  Corpus corpus_;
  SampleSourceOptions options_;
  SampleOrder order_;
};

}  // namespace lockstep::runtime

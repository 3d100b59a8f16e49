// The samples of training in their order: what the micro-batches of a step consist of.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "runtime/common/result.h"
#include "runtime/data/mixture.h"
#include "runtime/data/samples.h"

namespace lockstep::runtime {

struct SampleSourceOptions {
  int64_t global_batch_size = 0;  // samples per step
  int64_t micro_batch_size = 0;   // samples per micro-batch; divides global_batch_size
  bool shuffle = true;
  int64_t seed = 0;
  std::vector<int64_t> shares = {1};  // of each source of the samples, as of mixture_shares()
};

// Where a global sample position lies.
struct SamplePosition {
  std::size_t source = 0;
  int64_t epoch = 0;     // pass over that source
  int64_t position = 0;  // in the pass, before shuffling
};

// What one forward and backward is made of; rows of a sample lie one behind the other.
struct MicroBatch {
  std::vector<int64_t> samples;    // which ones, in order
  int64_t row_tokens = 0;          // T
  std::vector<int32_t> tokens;     // [rows, T]
  std::vector<int32_t> labels;     // [rows, T]; kNoLabel where there is no loss
  std::vector<int32_t> positions;  // [rows, T] of tokens in their documents
  bool has_borders = false;        // a row holds more than one document

  // What Decoder takes: none where every row is one document.
  const int32_t* positions_or_null() const { return has_borders ? positions.data() : nullptr; }
};

// Makes room for `most` samples and writes the rows of each of `samples`; rows beyond are left
// without loss. Errors as Samples::read().
common::Result<void> fill_rows(const Samples& from, const std::vector<int64_t>& samples,
                               int64_t most, MicroBatch& to);

// Step s takes positions [s*G, s*G + G) of an endless sequence. A source gives its samples to it in
// passes, each a permutation of all of them: nothing is dropped between two passes. Where there are
// several, the mixture says whose turn it is (mixture.h). So the data state is the step, on any
// rank count. An epoch is as many samples as all sources have: one pass if there is one source.
class SampleSource {
 public:
  // Takes the samples. Errors: kInvalidArgument with the numbers if there are fewer than one global
  // batch, or the batch sizes do not divide.
  static common::Result<SampleSource> create(Samples samples, const SampleSourceOptions& options);

  const Samples& samples() const { return samples_; }
  const Mixture& mixture() const { return mixture_; }
  int64_t samples_per_epoch() const { return samples_.num_samples(); }
  int64_t num_micro_batches() const {
    return options_.global_batch_size / options_.micro_batch_size;
  }
  // Whole global batches in `epochs` epochs; what does not fill the last one is dropped.
  int64_t steps_in(double epochs) const;

  // Where sample `index` (in [0, global_batch_size)) of `step` (from 0) lies.
  SamplePosition locate(int64_t step, int64_t index) const;
  // Which sample that is.
  int64_t sample_of(int64_t step, int64_t index) const;

  // Fills micro-batch `micro_index`, in [0, num_micro_batches()), of `step` (from 0). Errors as
  // Samples::read().
  common::Result<void> fill(int64_t step, int64_t micro_index, MicroBatch& to) const;
  // The labels of the whole global batch of `step`: what its loss is divided by.
  common::Result<int64_t> count_labels(int64_t step) const;
  // The tokens that are predicted in the first rows of its samples, with or without a label.
  int64_t count_first_predictions(int64_t step) const;

 private:
  SampleSource(Samples samples, const SampleSourceOptions& options);

  Samples samples_;
  SampleSourceOptions options_;
  Mixture mixture_;
};

}  // namespace lockstep::runtime

// Samples by index: which tokens of the data a row of a batch holds.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "runtime/common/result.h"
#include "runtime/data/token_source.h"

namespace lockstep::runtime {

struct SamplesOptions {
  int64_t sequence_length = 0;  // T
  bool packing = true;
  int64_t rows_per_sample = 1;  // 2: pairs of documents; without packing
};

// One row of a batch, written in place; all are [T].
struct SampleRow {
  std::span<int32_t> tokens;
  std::span<int32_t> labels;     // what each token predicts; kNoLabel where there is no loss
  std::span<int32_t> positions;  // of tokens in their documents
};

// With packing, sample i has tokens [i*T, i*T + T) of the stream: inputs of different samples do
// not overlap, a document may go on in the next sample (where its positions start anew), and a tail
// that does not fill a sample is left out. Without, sample i is document i, cut after T tokens or
// filled up with places without loss; of pairs sample i is documents 2i and 2i + 1, a row each.
// Those of several sources stand one source behind the other, and none reaches into two.
// Reading is const and may be done from several threads.
class Samples {
 public:
  // Errors: kInvalidArgument if sequence_length is below 1, or with packing the data is shorter
  // than one sample.
  static common::Result<Samples> create(std::unique_ptr<TokenSource> source,
                                        const SamplesOptions& options);

  // The samples of each of `parts`, in their order; all of them have the same options.
  static Samples join(std::vector<Samples> parts);

  int64_t num_samples() const { return parts_.back().first_sample + parts_.back().num_samples; }
  int64_t rows_per_sample() const { return options_.rows_per_sample; }
  int64_t sequence_length() const { return options_.sequence_length; }
  std::size_t num_sources() const { return parts_.size(); }
  int64_t num_samples_of(std::size_t source) const { return parts_[source].num_samples; }
  int64_t num_tokens() const;
  int64_t num_documents() const;
  // Identifies the data of all sources, as TokenSource::fingerprint().
  std::string fingerprint() const;

  // Where a sample lies.
  struct Place {
    std::size_t source = 0;
    int64_t sample = 0;  // of those of the source
  };
  Place place_of(int64_t sample) const;
  int64_t index_of(const Place& place) const {
    return parts_[place.source].first_sample + place.sample;
  }

  // Fills `row` with row `index`, the rows of sample i being those from i * rows_per_sample().
  // Returns whether it holds more than one document; if not, the positions are 0, 1, 2, ....
  // Errors as TokenSource::read().
  common::Result<bool> read(int64_t index, const SampleRow& row) const;
  // How many labels read() would write for the rows of `sample` that are not kNoLabel.
  common::Result<int64_t> count_labels(int64_t sample) const;
  // How many tokens of row `index` predict a token of its document, with or without a label.
  int64_t count_predictions(int64_t index) const;

  // Without packing, what does not fit in samples; looks at every document once. With packing none.
  struct Truncation {
    int64_t documents = 0;
    int64_t tokens = 0;
  };
  Truncation truncation() const;

 private:
  struct Part {
    std::unique_ptr<TokenSource> source;
    int64_t num_samples = 0;
    int64_t first_sample = 0;
  };
  Samples(const SamplesOptions& options, std::vector<Part> parts);
  // The tokens of the stream of `source` that row `index` holds.
  struct Range {
    const TokenSource& source;
    int64_t begin = 0, end = 0;
  };
  Range range_of(int64_t index) const;

  SamplesOptions options_;
  std::vector<Part> parts_;  // ascending first_sample, none of them empty
};

}  // namespace lockstep::runtime

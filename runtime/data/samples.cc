#include "runtime/data/samples.h"

#include <algorithm>
#include <cassert>
#include <numeric>
#include <string>
#include <utility>

namespace lockstep::runtime {

using common::Error;
using common::ErrorCode;
using common::Result;

Result<Samples> Samples::create(std::unique_ptr<TokenSource> source,
                                const SamplesOptions& options) {
  const int64_t length = options.sequence_length;
  if (length < 1) {
    return Error{ErrorCode::kInvalidArgument,
                 "sequenceLength must be at least 1, found " + std::to_string(length), ""};
  }
  // With packing the stream's last token is nobody's input: it only is a label.
  const int64_t num_samples = options.packing ? (source->num_tokens() - 1) / length
                                              : source->num_documents() / options.rows_per_sample;
  if (num_samples < 1) {
    return Error{ErrorCode::kInvalidArgument,
                 "the corpus has " + std::to_string(source->num_tokens()) +
                     " tokens, one sample of sequenceLength " + std::to_string(length) + " needs " +
                     std::to_string(length + 1),
                 "lower train.data.sequenceLength or add text to train.data.train"};
  }
  return Samples(std::move(source), options, num_samples);
}

Samples::Samples(std::unique_ptr<TokenSource> source, const SamplesOptions& options,
                 int64_t num_samples)
    : source_(std::move(source)), options_(options), num_samples_(num_samples) {}

Samples::Range Samples::range_of(int64_t index) const {
  assert(index >= 0 && index < num_samples_ * options_.rows_per_sample);
  const int64_t length = options_.sequence_length;
  if (options_.packing) return {index * length, index * length + length};
  const int64_t begin = source_->document_begin(index);
  return {begin, std::min(begin + length, source_->document_begin(index + 1))};
}

Result<bool> Samples::read(int64_t index, const SampleRow& row) const {
  const Range range = range_of(index);
  const auto count = static_cast<std::size_t>(range.end - range.begin);
  RETURN_IF_ERROR(source_->read(range.begin, row.tokens.first(count), row.labels.first(count)));
  // What is behind a document sees it, but nothing learns from that and nothing before sees it.
  std::fill(row.tokens.begin() + static_cast<std::ptrdiff_t>(count), row.tokens.end(), 0);
  std::fill(row.labels.begin() + static_cast<std::ptrdiff_t>(count), row.labels.end(), kNoLabel);
  std::iota(row.positions.begin(), row.positions.end(), 0);
  return options_.packing && write_positions(range.begin, row.positions);
}

// Restarts positions at every document that begins inside of the sample at `begin`. Returns whether
// one does.
bool Samples::write_positions(int64_t begin, std::span<int32_t> positions) const {
  const int64_t end = begin + static_cast<int64_t>(positions.size());
  bool has_border = false;
  for (int64_t document = document_at(*source_, begin) + 1; document < source_->num_documents();
       ++document) {
    const int64_t at = source_->document_begin(document);
    if (at >= end) break;
    const auto rest = positions.subspan(static_cast<std::size_t>(at - begin));
    std::iota(rest.begin(), rest.end(), 0);
    has_border = true;
  }
  return has_border;
}

Result<int64_t> Samples::count_labels(int64_t sample) const {
  int64_t count = 0;
  for (int64_t row = 0; row < rows_per_sample(); ++row) {
    const Range range = range_of(sample * rows_per_sample() + row);
    ASSIGN_OR_RETURN(const int64_t in_row, source_->count_labels(range.begin, range.end));
    count += in_row;
  }
  return count;
}

int64_t Samples::count_predictions(int64_t index) const {
  const Range range = range_of(index);
  const int64_t document = document_at(*source_, range.begin);
  return std::min(range.end, source_->document_begin(document + 1) - 1) - range.begin;
}

Samples::Truncation Samples::truncation() const {
  Truncation cut;
  if (options_.packing) return cut;
  for (int64_t document = 0; document < source_->num_documents(); ++document) {
    const int64_t rest = source_->document_begin(document + 1) - source_->document_begin(document) -
                         options_.sequence_length;
    if (rest <= 0) continue;
    ++cut.documents;
    cut.tokens += rest;
  }
  return cut;
}

}  // namespace lockstep::runtime

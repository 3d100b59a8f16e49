#include "runtime/data/samples.h"

#include <algorithm>
#include <cassert>
#include <iterator>
#include <numeric>
#include <string>
#include <utility>

namespace lockstep::runtime {

using common::Error;
using common::ErrorCode;
using common::Result;

namespace {

// Restarts positions at every document of `source` that begins inside of the sample at `begin`.
// Returns whether one does.
bool write_positions(const TokenSource& source, int64_t begin, std::span<int32_t> positions) {
  const int64_t end = begin + static_cast<int64_t>(positions.size());
  bool has_border = false;
  for (int64_t document = document_at(source, begin) + 1; document < source.num_documents();
       ++document) {
    const int64_t at = source.document_begin(document);
    if (at >= end) break;
    const auto rest = positions.subspan(static_cast<std::size_t>(at - begin));
    std::iota(rest.begin(), rest.end(), 0);
    has_border = true;
  }
  return has_border;
}

}  // namespace

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
                 "lower train.data.sequenceLength or add data"};
  }
  std::vector<Part> parts;
  parts.push_back({.source = std::move(source), .num_samples = num_samples});
  return Samples(options, std::move(parts));
}

Samples::Samples(const SamplesOptions& options, std::vector<Part> parts)
    : options_(options), parts_(std::move(parts)) {}

Samples Samples::join(std::vector<Samples> parts) {
  Samples joined = std::move(parts.front());
  for (std::size_t i = 1; i < parts.size(); ++i) {
    for (Part& part : parts[i].parts_) {
      part.first_sample = joined.num_samples();
      joined.parts_.push_back(std::move(part));
    }
  }
  return joined;
}

int64_t Samples::num_tokens() const {
  return std::accumulate(
      parts_.begin(), parts_.end(), int64_t{0},
      [](int64_t sum, const Part& part) { return sum + part.source->num_tokens(); });
}

int64_t Samples::num_documents() const {
  return std::accumulate(
      parts_.begin(), parts_.end(), int64_t{0},
      [](int64_t sum, const Part& part) { return sum + part.source->num_documents(); });
}

std::string Samples::fingerprint() const {
  std::string all = parts_.front().source->fingerprint();
  for (std::size_t i = 1; i < parts_.size(); ++i) {
    all.append("+").append(parts_[i].source->fingerprint());
  }
  return all;
}

Samples::Place Samples::place_of(int64_t sample) const {
  assert(sample >= 0 && sample < num_samples());
  const auto after =
      std::upper_bound(parts_.begin(), parts_.end(), sample,
                       [](int64_t at, const Part& part) { return at < part.first_sample; });
  const auto part = std::prev(after);  // the first part begins at 0, so there is one before
  return {static_cast<std::size_t>(part - parts_.begin()), sample - part->first_sample};
}

Samples::Range Samples::range_of(int64_t index) const {
  const Place place = place_of(index / options_.rows_per_sample);
  const TokenSource& source = *parts_[place.source].source;
  const int64_t row = place.sample * options_.rows_per_sample + index % options_.rows_per_sample;
  const int64_t length = options_.sequence_length;
  if (options_.packing) return {source, row * length, row * length + length};
  const int64_t begin = source.document_begin(row);
  return {source, begin, std::min(begin + length, source.document_begin(row + 1))};
}

Result<bool> Samples::read(int64_t index, const SampleRow& row) const {
  const Range range = range_of(index);
  const auto count = static_cast<std::size_t>(range.end - range.begin);
  RETURN_IF_ERROR(range.source.read(range.begin, row.tokens.first(count), row.labels.first(count)));
  // What is behind a document sees it, but nothing learns from that and nothing before sees it.
  std::fill(row.tokens.begin() + static_cast<std::ptrdiff_t>(count), row.tokens.end(), 0);
  std::fill(row.labels.begin() + static_cast<std::ptrdiff_t>(count), row.labels.end(), kNoLabel);
  std::iota(row.positions.begin(), row.positions.end(), 0);
  return options_.packing && write_positions(range.source, range.begin, row.positions);
}

Result<int64_t> Samples::count_labels(int64_t sample) const {
  int64_t count = 0;
  for (int64_t row = 0; row < rows_per_sample(); ++row) {
    const Range range = range_of(sample * rows_per_sample() + row);
    ASSIGN_OR_RETURN(const int64_t in_row, range.source.count_labels(range.begin, range.end));
    count += in_row;
  }
  return count;
}

int64_t Samples::count_predictions(int64_t index) const {
  const Range range = range_of(index);
  const int64_t document = document_at(range.source, range.begin);
  return std::min(range.end, range.source.document_begin(document + 1) - 1) - range.begin;
}

Samples::Truncation Samples::truncation() const {
  Truncation cut;
  if (options_.packing) return cut;
  for (const Part& part : parts_) {
    const TokenSource& source = *part.source;
    for (int64_t document = 0; document < source.num_documents(); ++document) {
      const int64_t rest = source.document_begin(document + 1) - source.document_begin(document) -
                           options_.sequence_length;
      if (rest <= 0) continue;
      ++cut.documents;
      cut.tokens += rest;
    }
  }
  return cut;
}

}  // namespace lockstep::runtime

#include "runtime/data/held_out.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <cstddef>
#include <span>
#include <utility>

#include <nlohmann/json.hpp>

#include "runtime/data/sample_order.h"

namespace lockstep::runtime {

using common::Error;
using common::ErrorCode;
using common::Result;

namespace {

// Counts as an epoch that training never comes to.
constexpr int64_t kHoldOutEpoch = -1;

std::vector<int64_t> choose_units(int64_t num_units, int64_t count, int64_t seed) {
  const SampleOrder order{.num_samples = num_units, .seed = static_cast<uint64_t>(seed)};
  std::vector<int64_t> units(static_cast<std::size_t>(count));
  for (int64_t i = 0; i < count; ++i) {
    units[static_cast<std::size_t>(i)] = sample_at(order, kHoldOutEpoch, i);
  }
  std::sort(units.begin(), units.end());
  return units;
}

}  // namespace

// The documents of one share, in the order of the source that they come from.
class SharedDocuments final : public TokenSource {
 public:
  SharedDocuments(const DividedSource& from, Share share)
      : from_(from),
        share_(share),
        fingerprint_(from.whole_->fingerprint() +
                     (share == Share::kHeldOut ? ":only:" : ":without:") +
                     std::to_string(from.num_held_out()) + "/" + std::to_string(from.num_units()) +
                     ":" + std::to_string(from.options_.seed)) {}

  int64_t num_tokens() const override { return document_begin(num_documents()); }
  int64_t num_documents() const override {
    const int64_t held_out = from_.num_held_out();
    return per_unit() * (share_ == Share::kHeldOut ? held_out : from_.num_units() - held_out);
  }
  int64_t num_token_ids() const override { return from_.whole_->num_token_ids(); }
  int64_t document_begin(int64_t document) const override { return locate(document).begin; }
  Result<void> read(int64_t begin, std::span<int32_t> tokens,
                    std::span<int32_t> labels) const override;
  Result<int64_t> count_labels(int64_t begin, int64_t end) const override;
  const std::string& fingerprint() const override { return fingerprint_; }

 private:
  // Where a document begins.
  struct Place {
    int64_t begin = 0;     // in this share
    int64_t in_whole = 0;  // in the source
  };
  // num_documents() gives the end of the share; its in_whole says nothing.
  Place locate(int64_t document) const;
  int64_t per_unit() const { return from_.options_.documents_per_unit; }
  // Calls `use(begin, end)` with every piece of the source that tokens [begin, end) lie in.
  template <typename Use>
  Result<void> for_each_piece(int64_t begin, int64_t end, const Use& use) const;

  const DividedSource& from_;
  Share share_;
  std::string fingerprint_;
};

SharedDocuments::Place SharedDocuments::locate(int64_t document) const {
  const std::vector<int64_t>& held_out = from_.held_out_;
  const int64_t unit = document / per_unit();
  const TokenSource& whole = *from_.whole_;
  if (share_ == Share::kHeldOut) {
    const int64_t before = from_.tokens_before_[static_cast<std::size_t>(unit)];
    if (unit == from_.num_held_out()) return {.begin = before};
    const int64_t first = held_out[static_cast<std::size_t>(unit)] * per_unit();
    const int64_t at = whole.document_begin(first + document % per_unit());
    return {.begin = before + at - whole.document_begin(first), .in_whole = at};
  }
  const std::size_t skipped = from_.num_skipped(unit);
  const int64_t at = whole.document_begin(document + static_cast<int64_t>(skipped) * per_unit());
  return {.begin = at - from_.tokens_before_[skipped], .in_whole = at};
}

template <typename Use>
Result<void> SharedDocuments::for_each_piece(int64_t begin, int64_t end, const Use& use) const {
  if (begin >= end) return {};
  for (int64_t document = document_at(*this, begin); begin < end; ++document) {
    const Place place = locate(document);
    const int64_t stop = std::min(end, document_begin(document + 1));
    const int64_t at = place.in_whole + begin - place.begin;
    RETURN_IF_ERROR(use(at, at + stop - begin));
    begin = stop;
  }
  return {};
}

Result<void> SharedDocuments::read(int64_t begin, std::span<int32_t> tokens,
                                   std::span<int32_t> labels) const {
  assert(labels.size() == tokens.size());
  std::size_t done = 0;
  const int64_t end = begin + static_cast<int64_t>(tokens.size());
  return for_each_piece(begin, end, [&](int64_t from, int64_t to) -> Result<void> {
    const auto count = static_cast<std::size_t>(to - from);
    RETURN_IF_ERROR(
        from_.whole_->read(from, tokens.subspan(done, count), labels.subspan(done, count)));
    done += count;
    return {};
  });
}

Result<int64_t> SharedDocuments::count_labels(int64_t begin, int64_t end) const {
  int64_t count = 0;
  RETURN_IF_ERROR(for_each_piece(begin, end, [&](int64_t from, int64_t to) -> Result<void> {
    ASSIGN_OR_RETURN(const int64_t in_piece, from_.whole_->count_labels(from, to));
    count += in_piece;
    return {};
  }));
  return count;
}

Result<std::unique_ptr<DividedSource>> DividedSource::create(std::unique_ptr<TokenSource> whole,
                                                             const HoldOutOptions& options) {
  assert(options.fraction > 0 && options.fraction < 1);
  const int64_t num_units = whole->num_documents() / options.documents_per_unit;
  const auto count =
      static_cast<int64_t>(std::ceil(options.fraction * static_cast<double>(num_units)));
  if (count >= num_units) {
    return Error{ErrorCode::kInvalidArgument,
                 "train.data.validationFraction: " + nlohmann::json(options.fraction).dump() +
                     " of " + std::to_string(num_units) + " " + options.unit_name + " is " +
                     std::to_string(count) + ", which leaves none to train on",
                 "whole " + std::string(options.unit_name) +
                     " are held out: lower it, or name train.data.validation in its place"};
  }
  return std::unique_ptr<DividedSource>(new DividedSource(
      std::move(whole), options, num_units, choose_units(num_units, count, options.seed)));
}

DividedSource::DividedSource(std::unique_ptr<TokenSource> whole, const HoldOutOptions& options,
                             int64_t num_units, std::vector<int64_t> held_out)
    : whole_(std::move(whole)),
      options_(options),
      num_units_(num_units),
      held_out_(std::move(held_out)) {
  tokens_before_.reserve(held_out_.size() + 1);
  tokens_before_.push_back(0);
  for (const int64_t unit : held_out_) {
    const int64_t first = unit * options_.documents_per_unit;
    const int64_t num_tokens =
        whole_->document_begin(first + options_.documents_per_unit) - whole_->document_begin(first);
    tokens_before_.push_back(tokens_before_.back() + num_tokens);
  }
}

std::size_t DividedSource::num_skipped(int64_t unit) const {
  // i of them lie before the (held_out_[i] - i)th unit of training.
  std::size_t skipped = 0;
  for (std::size_t after = held_out_.size(); skipped < after;) {
    const std::size_t middle = skipped + (after - skipped) / 2;
    if (held_out_[middle] - static_cast<int64_t>(middle) <= unit) {
      skipped = middle + 1;
    } else {
      after = middle;
    }
  }
  return skipped;
}

int64_t DividedSource::unit_of(Share share, int64_t unit) const {
  if (share == Share::kHeldOut) return held_out_[static_cast<std::size_t>(unit)];
  return unit + static_cast<int64_t>(num_skipped(unit));
}

std::unique_ptr<TokenSource> DividedSource::open(Share share) const {
  return std::make_unique<SharedDocuments>(*this, share);
}

}  // namespace lockstep::runtime

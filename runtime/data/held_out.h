// Documents that are held out of training to measure the loss on: two shares of one source.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "runtime/common/result.h"
#include "runtime/data/token_source.h"

namespace lockstep::runtime {

struct HoldOutOptions {
  double fraction = 0;                  // in (0, 1)
  int64_t seed = 0;                     // which units
  int64_t documents_per_unit = 1;       // 2: those of a pair stay together
  const char* unit_name = "documents";  // in errors
};

enum class Share { kTraining, kHeldOut };

// Note [Held-out documents]
// Of n units (documents, or pairs of them) ceil(fraction * n) are held out, as many as
// train_test_split() of Hugging Face's datasets takes. Which ones is a function of n, fraction and
// seed alone: the first of a permutation of all units that no epoch has (sample_order.h). So they
// are the same on every rank, on any number of them and after a restart, wherever the data is
// mounted. Both shares keep the order of the source. What stands between two documents goes with
// the second: a share whose first document is not the source's begins with a separator, if there
// are any.
class DividedSource {
 public:
  // Takes the source. kInvalidArgument, naming the field, if nothing would be left to train on.
  static common::Result<std::unique_ptr<DividedSource>> create(std::unique_ptr<TokenSource> whole,
                                                               const HoldOutOptions& options);

  // A source of the documents of `share`; this object outlives it.
  std::unique_ptr<TokenSource> open(Share share) const;

  int64_t num_units() const { return num_units_; }
  int64_t num_held_out() const { return static_cast<int64_t>(held_out_.size()); }
  // Which unit of the source unit `unit` of `share` is.
  int64_t unit_of(Share share, int64_t unit) const;

 private:
  friend class SharedDocuments;
  // How many units are held out before unit `unit` of those of training.
  std::size_t num_skipped(int64_t unit) const;
  DividedSource(std::unique_ptr<TokenSource> whole, const HoldOutOptions& options,
                int64_t num_units, std::vector<int64_t> held_out);

  std::unique_ptr<TokenSource> whole_;
  HoldOutOptions options_;
  int64_t num_units_ = 0;
  std::vector<int64_t> held_out_;       // units, ascending
  std::vector<int64_t> tokens_before_;  // of each of them, in those before it; then all
};

}  // namespace lockstep::runtime

// Whose turn it is in a mixture of sources, as a pure function: no state to save, the same on every
// rank.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace lockstep::runtime {

// Note [Mixing by turns]
// A round of a mixture is a list of turns with shares[i] of them for source i. Its turns are spread
// as evenly as can be: after any number of them, in any round, each source has had less than one
// turn more or less than its share of them, and in a global batch less than two. Nothing is drawn.
// Turn j (from 0) of n of source i in a round of R turns is not before place floor(j * R / n)
// and before place ceil((j + 1) * R / n); whose window is open and ends first is next, which always
// succeeds, since all shares add up to R.
// Source: S. Baruah, N. Cohen, C. Plaxton, D. Varvel, "Proportionate Progress: A Notion of Fairness
// in Resource Allocation", Algorithmica 15 (1996), for one processor.
class Mixture {
 public:
  // shares: [source], each at least 1; as of common::mixture_shares().
  explicit Mixture(std::vector<int64_t> shares);

  struct Turn {
    std::size_t source = 0;
    int64_t before = 0;  // turns of that source before this one
  };
  // The turn at `position`, at least 0, of the endless sequence of rounds.
  Turn at(int64_t position) const;

  std::size_t num_sources() const { return shares_.size(); }
  // The share of source `source` as a part of 1.
  double part_of(std::size_t source) const;

 private:
  std::vector<int64_t> shares_;
  std::vector<Turn> round_;
};

}  // namespace lockstep::runtime

#include "runtime/data/mixture.h"

#include <cassert>
#include <limits>
#include <numeric>
#include <utility>

namespace lockstep::runtime {
namespace {

// The source whose next turn is at `place` of a round of `num_turns`.
//   had: [source] turns so far in the round.
std::size_t next_source(const std::vector<int64_t>& shares, const std::vector<int64_t>& had,
                        int64_t place, int64_t num_turns) {
  std::size_t next = shares.size();
  int64_t next_end = std::numeric_limits<int64_t>::max();
  for (std::size_t source = 0; source < shares.size(); ++source) {
    const int64_t share = shares[source];
    const int64_t begin = had[source] * num_turns / share;
    const int64_t end = ((had[source] + 1) * num_turns + share - 1) / share;
    if (begin > place || end >= next_end) continue;
    next = source;
    next_end = end;
  }
  assert(next < shares.size() && place < next_end);
  return next;
}

}  // namespace

Mixture::Mixture(std::vector<int64_t> shares) : shares_(std::move(shares)) {
  const int64_t num_turns = std::accumulate(shares_.begin(), shares_.end(), int64_t{0});
  std::vector<int64_t> had(shares_.size());
  round_.reserve(static_cast<std::size_t>(num_turns));
  for (int64_t place = 0; place < num_turns; ++place) {
    const std::size_t source = next_source(shares_, had, place, num_turns);
    round_.push_back({.source = source, .before = had[source]++});
  }
}

Mixture::Turn Mixture::at(int64_t position) const {
  assert(position >= 0);
  const auto num_turns = static_cast<int64_t>(round_.size());
  Turn turn = round_[static_cast<std::size_t>(position % num_turns)];
  turn.before += position / num_turns * shares_[turn.source];
  return turn;
}

double Mixture::part_of(std::size_t source) const {
  return static_cast<double>(shares_[source]) / static_cast<double>(round_.size());
}

}  // namespace lockstep::runtime

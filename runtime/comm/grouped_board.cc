#include "runtime/comm/grouped_board.h"

#include <utility>

namespace lockstep::runtime {

GroupedBoard::GroupedBoard(std::shared_ptr<ShmSegment> inside, std::unique_ptr<Beacon> beacon)
    : segment_(std::move(inside)), board_(*segment_), beacon_(std::move(beacon)) {}

std::optional<int> GroupedBoard::inside(int rank) const {
  const int place = rank - (beacon_->rank() - segment_->rank());
  if (place < 0 || place >= segment_->world_size()) return std::nullopt;
  return place;
}

void GroupedBoard::post(const Standing& standing) {
  board_.post(standing);
  beacon_->post(standing);
}

void GroupedBoard::learn(int rank, const Standing& standing) {
  if (!inside(rank)) beacon_->learn(rank, standing);
}

std::optional<Standing> GroupedBoard::read(int rank) const {
  const std::optional<int> place = inside(rank);
  return place ? board_.read(*place) : beacon_->read(rank);
}

// The segment knows at once who is dead, the beacon who is stopped.
Presence GroupedBoard::presence(int rank) const {
  const std::optional<int> place = inside(rank);
  const Presence seen = place ? board_.presence(*place) : Presence::kThere;
  return seen == Presence::kThere ? beacon_->presence(rank) : seen;
}

// What other hosts told comes before what this rank found out, and goes into the word of this host.
std::optional<Verdict> GroupedBoard::accuse(const Verdict& mine) {
  if (const std::optional<Verdict> first = board_.verdict()) return first;
  const std::optional<Verdict> told = beacon_->accuse(mine);
  if (const std::optional<Verdict> first = board_.accuse(told.value_or(mine))) return first;
  return told;
}

// A verdict of another host holds for this one as soon as a rank of it goes by it.
std::optional<Verdict> GroupedBoard::verdict() const {
  if (const std::optional<Verdict> found = board_.verdict()) return found;
  const std::optional<Verdict> told = beacon_->verdict();
  if (!told) return std::nullopt;
  const std::optional<Verdict> first = ShmBoard(*segment_).accuse(*told);
  return first ? first : told;
}

}  // namespace lockstep::runtime

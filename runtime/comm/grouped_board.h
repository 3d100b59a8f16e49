// The board of a world of several hosts: shared memory for ranks of this one, datagrams for others.
#pragma once

#include <memory>
#include <optional>

#include "runtime/comm/beacon.h"
#include "runtime/comm/shm_board.h"
#include "runtime/comm/shm_segment.h"
#include "runtime/comm/standing.h"

namespace lockstep::runtime {

// Ranks are numbered as in the world, verdicts too, on either carrier: whoever finds one out tells
// its own host at once and the others by datagram, so that all name the same rank.
class GroupedBoard final : public StandingBoard {
 public:
  //   inside: the segment of the ranks of this host, which are consecutive, in their order.
  //   beacon: of the world, started.
  GroupedBoard(std::shared_ptr<ShmSegment> inside, std::unique_ptr<Beacon> beacon);

  int rank() const override { return beacon_->rank(); }
  int world_size() const override { return beacon_->world_size(); }
  int name(int rank) const override { return rank; }
  void post(const Standing& standing) override;
  void learn(int rank, const Standing& standing) override;
  std::optional<Standing> read(int rank) const override;
  Presence presence(int rank) const override;
  std::optional<Verdict> accuse(const Verdict& verdict) override;
  std::optional<Verdict> verdict() const override;

 private:
  // The number of a rank on this host; nothing if it is on another.
  std::optional<int> inside(int rank) const;

  std::shared_ptr<ShmSegment> segment_;
  ShmBoard board_;
  std::unique_ptr<Beacon> beacon_;
};

}  // namespace lockstep::runtime

// The board of standings in the ranks' shared segment.
#pragma once

#include <utility>
#include <vector>

#include "runtime/comm/shm_segment.h"
#include "runtime/comm/standing.h"

namespace lockstep::runtime {

class ShmBoard final : public StandingBoard {
 public:
  // `segment` must outlive it.
  //   names: of a group's ranks; empty in the world.
  explicit ShmBoard(ShmSegment& segment, std::vector<int> names = {})
      : segment_(segment), names_(std::move(names)) {}

  int rank() const override { return segment_.rank(); }
  int world_size() const override { return segment_.world_size(); }
  int name(int rank) const override {
    return names_.empty() ? rank : names_[static_cast<size_t>(rank)];
  }
  void post(const Standing& standing) override;
  void learn(int /*rank*/, const Standing& /*standing*/) override {}  // nothing is newer
  std::optional<Standing> read(int rank) const override;
  Presence presence(int rank) const override;
  std::optional<Verdict> accuse(const Verdict& verdict) override;
  std::optional<Verdict> verdict() const override;

 private:
  ShmSegment& segment_;
  std::vector<int> names_;
};

}  // namespace lockstep::runtime

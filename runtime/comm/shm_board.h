// The board of standings in the ranks' shared segment.
#pragma once

#include "runtime/comm/shm_segment.h"
#include "runtime/comm/standing.h"

namespace lockstep::runtime {

class ShmBoard final : public StandingBoard {
 public:
  explicit ShmBoard(ShmSegment& segment) : segment_(segment) {}  // which must outlive it

  int rank() const override { return segment_.rank(); }
  int world_size() const override { return segment_.world_size(); }
  void post(const Standing& standing) override;
  std::optional<Standing> read(int rank) const override;
  Presence presence(int rank) const override;
  std::optional<Verdict> accuse(const Verdict& verdict) override;
  std::optional<Verdict> verdict() const override;

 private:
  ShmSegment& segment_;
};

}  // namespace lockstep::runtime

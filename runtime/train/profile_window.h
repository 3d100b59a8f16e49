// Profiles a few steps: OUTPUT/profile/trace.json, with the events of all ranks.
#pragma once

#include <cstdint>
#include <string>

#include "runtime/checkpoint/disk.h"
#include "runtime/common/train_config.h"
#include "runtime/train/rank_state.h"
#include "runtime/train/trace.h"

namespace lockstep::runtime {

inline constexpr char kProfileFolder[] = "profile";

// Every rank has one, with the same configuration. Without a window it costs a comparison per step.
class ProfileWindow {
 public:
  // `s` and `disk` must outlive this object.
  ProfileWindow(RankState& s, Disk& disk);

  // Before step `step`, counted from 1. Where the window begins (or a resumed run comes into it)
  // the ranks agree on an origin of time, as far as the clocks of their machines agree.
  void step_begins(int64_t step);
  // After it. With the window's last step rank 0 writes the file, in place of an earlier one. Every
  // rank must call it; blocks for that.
  // Throws RunError(kOutputUnwritable), and what collectives throw.
  void step_ended(int64_t step);
  // Training ends: the file appears if the window was not over. As step_ended().
  void finish();

 private:
  bool is_inside(int64_t step) const;
  common::Result<void> write_own(const std::string& events);
  common::Result<void> join_all();

  RankState& s_;
  Disk& disk_;
  const common::ProfileConfig window_;
  TraceSpan::Clock::time_point origin_;
};

}  // namespace lockstep::runtime

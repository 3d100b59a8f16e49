// What is known of one rank's life from asking it again and again.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>

#include "operator/plan/plan.h"
#include "runtime/common/progress.h"

namespace lockstep::plan {

class Heartbeat {
 public:
  using Clock = std::chrono::steady_clock;

  // `begin`: when the rank was asked first.
  explicit Heartbeat(Clock::time_point begin) : heard_(begin) {}

  void answered(const common::JobProgress& progress, Clock::time_point now);
  // The rank did not answer. Twice in a row, and it counts as silent.
  void missed() { ++num_missed_; }

  // Nothing until it is known whether the rank answers, and how old its heartbeat is.
  std::optional<Pulse> pulse(int64_t rank, Clock::time_point now) const;
  // How long the rank has been silent, or has done nothing.
  std::chrono::seconds idle(Clock::time_point now) const;

 private:
  bool is_silent() const { return num_missed_ >= 2; }

  Clock::time_point heard_;    // the last answer
  std::optional<double> age_;  // that it told
  int64_t step_ = 0;
  int num_missed_ = 0;  // in a row
};

}  // namespace lockstep::plan

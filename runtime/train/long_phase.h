// Work before the first step that may take long, as others see it.
#pragma once

#include <chrono>
#include <string>

#include "runtime/common/progress.h"
#include "runtime/train/status_board.h"

namespace lockstep::runtime {

// A phase of /status between "starting" and "starting". Without signs of life it would look like a
// stall; without an end the phases after it would be told as this one.
class LongPhase {
 public:
  // `board` must outlive the object. The phase begins.
  LongPhase(StatusBoard& board, std::string name);
  // A sign of life, and how far the work is. Returns whether a line of the log is due: every ten
  // seconds.
  bool got_on(const common::PhaseProgress& progress);
  // The phase ends. Not called where the work failed, which ends the rank.
  void end();

 private:
  using Clock = std::chrono::steady_clock;

  StatusBoard& board_;
  std::string name_;
  Clock::time_point logged_ = Clock::now();
};

}  // namespace lockstep::runtime

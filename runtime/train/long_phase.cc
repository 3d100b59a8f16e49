#include "runtime/train/long_phase.h"

#include <utility>

namespace lockstep::runtime {
namespace {

constexpr std::chrono::seconds kLinesApart{10};

}  // namespace

LongPhase::LongPhase(StatusBoard& board, std::string name) : board_(board), name_(std::move(name)) {
  board_.set_phase(name_);
}

bool LongPhase::got_on(const common::PhaseProgress& progress) {
  board_.set_phase(name_, progress);
  if (Clock::now() - logged_ < kLinesApart) return false;
  logged_ = Clock::now();
  return true;
}

void LongPhase::end() {
  board_.set_phase("starting");
}

}  // namespace lockstep::runtime

// SIGKILL, SIGSTOP and SIGTERM of a rank in every phase of its life.
#include "tests/faults/fault_matrix.h"

#include <array>
#include <set>

#include <gtest/gtest.h>

namespace lockstep::faults {
namespace {

// Every signal in every phase once, with the other choices in turn; in the order of phases.
std::vector<Fault> cover() {
  std::vector<Fault> faults;
  const std::vector<Phase>& phases = all_phases();
  for (std::size_t phase = 0; phase < phases.size(); ++phase) {
    for (std::size_t signal = 0; signal < kSignals.size(); ++signal) {
      faults.push_back({.phase = phases[phase],
                        .signal = kSignals[signal],
                        .place = (signal + phase / 3) % 2 == 0 ? "first" : "last",
                        .backend = kBackends[(signal + phase) % kBackends.size()],
                        .sharing = all_sharings()[(phase + 2 * signal) % all_sharings().size()]});
    }
  }
  return faults;
}

TEST(FaultCoverTest, EveryTwoChoicesMeetButPhaseAndStrategy) {
  const auto choices = [](const Fault& fault) {
    return std::array<std::string, 5>{fault.signal, fault.phase.name, fault.place, fault.backend,
                                      fault.sharing.name};
  };
  std::array<std::set<std::string>, 5> all;
  std::set<std::array<std::string, 4>> met;
  for (const Fault& fault : cover()) {
    const auto chosen = choices(fault);
    for (std::size_t a = 0; a < chosen.size(); ++a) {
      all.at(a).insert(chosen.at(a));
      for (std::size_t b = a + 1; b < chosen.size(); ++b) {
        met.insert({std::to_string(a), chosen.at(a), std::to_string(b), chosen.at(b)});
      }
    }
  }
  for (std::size_t a = 0; a < all.size(); ++a) {
    for (std::size_t b = a + 1; b < all.size(); ++b) {
      if (a == 1 && b == 4) continue;
      for (const std::string& one : all.at(a)) {
        for (const std::string& other : all.at(b)) {
          EXPECT_TRUE(met.contains({std::to_string(a), one, std::to_string(b), other}))
              << one << " never meets " << other;
        }
      }
    }
  }
}

TEST(FaultMatrixTest, ASignalInAnyPhaseIsNamedInTimeAndLosesNothing) {
  std::vector<Fault> faults = cover();
  for (const std::string& backend : kBackends) {
    faults.push_back({slow_communication(), "delay", "last", backend, all_sharings().back()});
  }
  FaultMatrix matrix;
  matrix.strike_all(chains_of(faults, 3), 18);
}

}  // namespace
}  // namespace lockstep::faults

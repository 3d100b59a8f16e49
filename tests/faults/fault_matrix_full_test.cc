// The whole product of what fault_matrix_test covers by pairs. Takes minutes; run by `make
// test-full`.
#include <gtest/gtest.h>

#include "tests/faults/fault_matrix.h"

namespace lockstep::faults {
namespace {

TEST(FaultMatrixFullTest, ASignalInAnyPhaseIsNamedInTimeAndLosesNothing) {
  std::vector<Fault> faults;
  for (const std::string& backend : kBackends) {
    for (const Sharing& sharing : all_sharings()) {
      for (const std::string& signal : kSignals) {
        for (const std::string& place : kPlaces) {
          if (place == "middle" && sharing.ranks == 2) continue;
          for (const Phase& phase : all_phases()) {
            faults.push_back({phase, signal, place, backend, sharing});
          }
        }
      }
    }
  }
  FaultMatrix matrix;
  matrix.strike_all(chains_of(faults, all_phases().size()), 12);
  RecordProperty("faults", static_cast<int>(faults.size()));
}

}  // namespace
}  // namespace lockstep::faults

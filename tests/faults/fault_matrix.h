// What may happen to one rank of a run, and what must hold whatever it is.
//
// Note [Chains of faults]
// A run is struck by one fault after another, in the order of a run's phases: each attempt has one
// rank that is killed, stopped or told to end at a point that it names itself (faulty_runtime.cc),
// and the next attempt goes on from what is left. At the end one attempt is left alone, and the run
// must have the bits of one that never was disturbed.
#pragma once

#include <atomic>
#include <semaphore>
#include <string>
#include <vector>

#include "tests/faults/faulty_runs.h"

namespace lockstep::faults {

// How far the ranks are.
enum class Stage {
  kMeeting,   // some may not have met
  kSetUp,     // all have met; nothing is trained
  kTraining,  // a stop must save
  kEnd,       // all is saved
};

// A place in a rank's life. Rank 0 does some things alone; the others have a counterpart.
struct Phase {
  const char* name;
  Stage stage;
  const char* point;  // of faulty_runtime.cc, like the next
  const char* what = "";
  const char* others_point = nullptr;  // of ranks that are not 0; nullptr: the same
  const char* others_what = "";
};
const std::vector<Phase>& all_phases();  // in the order of a run
// Where a rank is slower than the timeout, as "delay" makes it.
Phase slow_communication();

inline const std::vector<std::string> kSignals = {"kill", "stop", "term"};
inline const std::vector<std::string> kPlaces = {"first", "middle", "last"};
inline const std::vector<std::string> kBackends = {"shared-memory", "gloo"};

// What strikes one attempt.
struct Fault {
  Phase phase;
  std::string signal;
  std::string place;  // of the struck rank among the ranks
  std::string backend;
  Sharing sharing;

  int rank() const;
};
std::string name_of(const Fault& fault);
// The faults of each backend and sharing, in their order.
//   num_faults: of a chain, at most.
std::vector<std::vector<Fault>> chains_of(const std::vector<Fault>& faults, std::size_t num_faults);

// Strikes runs with chains of faults, which are of one backend and sharing and in the order of
// their phases, and adds a test failure for whatever should not be.
class FaultMatrix {
 public:
  // Strikes one run with each chain, `num_threads` of them at a time. The ranks of at most kActive
  // runs are busy at a time; the others wait for a timeout.
  void strike_all(const std::vector<std::vector<Fault>>& chains, std::size_t num_threads);

 private:
  static constexpr int kActive = 3;

  void strike(const std::string& run, const std::vector<Fault>& faults);
  void strike_once(const std::string& run, const Fault& fault, int attempt);
  void finish(const std::string& run, const Fault& last, int attempt);

  FaultyRuns runs_;
  std::counting_semaphore<kActive> active_{kActive};
};

}  // namespace lockstep::faults

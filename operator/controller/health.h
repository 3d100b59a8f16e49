// What /readyz and /healthz answer.
#pragma once

#include <chrono>
#include <optional>
#include <string>

namespace lockstep::control {

// How the operator is, as far as probes ask.
struct Vitals {
  bool has_synced = false;   // all stores are complete
  bool is_stopping = false;  // SIGTERM came, or the lead was lost
  // Leader election, unless it is off.
  struct Election {
    std::optional<std::chrono::seconds> since_answer;  // of the server, about the Lease
    std::chrono::seconds since_turn{0};                // the thread has been at the same step
    std::chrono::seconds lease_duration{15};
  };
  std::optional<Election> election;
  std::chrono::seconds longest_reconcile{0};  // of those under way
};

struct Health {
  bool ok = false;
  std::string text;  // a line per part: "[+]stores ok", "[-]lease ..."
};

// Ready: this replica would do its work, or take over the work, at once. A follower is ready.
// Not ready: stores incomplete, Lease not seen for its duration (no rights, no server), stopping.
Health check_readiness(const Vitals& vitals);

// Alive: no thread is stuck. An API server that is away makes nobody dead: every call has a limit.
// Dead: the election's thread is 60 s past the lease duration, or a reconcile lasts 15 minutes.
Health check_liveness(const Vitals& vitals);

}  // namespace lockstep::control

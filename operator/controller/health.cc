#include "operator/controller/health.h"

namespace lockstep::control {

using std::chrono::seconds;

namespace {

// What a step may take beyond the lease duration: connecting, an exec plugin, an answer.
constexpr seconds kElectionTolerance{60};
// A gang of 1,000 pods takes a slow server less than that.
constexpr seconds kMaxReconcile{15 * 60};

void tell(Health& health, const std::string& part, const std::string& trouble) {
  health.ok = health.ok && trouble.empty();
  health.text += trouble.empty() ? "[+]" + part + " ok\n" : "[-]" + part + " " + trouble + "\n";
}

std::string text_of(seconds time) {
  return std::to_string(time.count()).append(" s");
}

std::string lease_trouble(const Vitals::Election& election) {
  if (!election.since_answer) return "has never been read or written";
  if (*election.since_answer <= election.lease_duration) return "";
  return "could not be read or written for " + text_of(*election.since_answer);
}

}  // namespace

Health check_readiness(const Vitals& vitals) {
  Health health{.ok = true, .text = ""};
  tell(health, "stores", vitals.has_synced ? "" : "are not complete: watches have not synced");
  if (vitals.election) tell(health, "lease", lease_trouble(*vitals.election));
  tell(health, "running", vitals.is_stopping ? "no more: the operator is stopping" : "");
  return health;
}

Health check_liveness(const Vitals& vitals) {
  Health health{.ok = true, .text = ""};
  if (vitals.election) {
    const seconds turn = vitals.election->since_turn;
    const bool is_stuck = turn > vitals.election->lease_duration + kElectionTolerance;
    tell(health, "election", is_stuck ? "is stuck for " + text_of(turn) : "");
  }
  const seconds longest = vitals.longest_reconcile;
  tell(health, "workers", longest > kMaxReconcile ? "are stuck for " + text_of(longest) : "");
  return health;
}

}  // namespace lockstep::control

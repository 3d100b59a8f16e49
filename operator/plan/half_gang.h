// The deadlock timeout: what becomes of a gang of which some pods have nodes and others get none.
//
// Note [Half a gang]
// A scheduler that knows no gangs gives nodes to pods one by one. So two jobs may each hold half of
// what there is and wait for the other half, for ever. Therefore no pod keeps a node for longer
// than spec.scheduling.gangTimeoutSeconds while another pod of its attempt has none: the whole gang
// gives its nodes back, pauses, and tries again as a new attempt, free of charge.
//   - The time counts from the oldest binding, in the API server's words. An operator that starts
//     anew or a write that is lost makes it no longer.
//   - Ranks that gave up waiting for the others (RendezvousTimeout) end it at once: they miss the
//     pods that have no node.
//   - While a queue holds pods back, what they lack is the queue's to give (queue.h).
//   - A gang that holds nothing waits as long as it likes: it is in nobody's way. So does a gang
//     that had all its nodes once: losing some is a failure (Note [A vanished rank]).
//   - The pause doubles with every release in a row. Half of it depends on the job's UID and the
//     attempt: of two jobs that gave way to each other in the same second, one comes back first.
//     Planning again gives the same pause.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "operator/api/training_job.h"
#include "operator/plan/plan.h"
#include "operator/plan/situation.h"

namespace lockstep::plan {

// Scheduled=False while a gang that gave its nodes back pauses.
inline constexpr const char* kGangReleased = "GangReleased";

struct HalfGang {
  int64_t num_bound = 0;  // pods that hold a node
  int64_t num_pods = 0;
  api::Time until{};  // the gang is released then
};

// Nothing if the gang is whole, holds nothing, was whole before, or has no such limit.
std::optional<HalfGang> find_half_gang(const Situation& s);

// The next attempt of a gang that gives its nodes back. The pods go with the plan after.
Plan release_gang(const Situation& s, Plan next, const HalfGang& half);

// Says why the gang is not there, in condition and message; forgets the releases once it is whole.
void tell_releases(const Situation& s, Plan& next);

// "half a gang gave its nodes back twice"
std::string count_releases(int64_t releases);

// The pause before the attempt that follows the `releases`-th release in a row (1, 2, ...): from 15
// to 30 s, 30 to 60 s, ... 5 to 10 min, the same for the same job and attempt.
std::chrono::seconds release_pause(std::string_view job_uid, int64_t attempt, int64_t releases);

}  // namespace lockstep::plan

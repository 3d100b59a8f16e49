#include "operator/plan/stall.h"

#include <algorithm>
#include <cstddef>
#include <limits>
#include <string>
#include <tuple>
#include <vector>

#include "operator/plan/gang.h"

namespace lockstep::plan {
namespace {

using std::chrono::seconds;

// The older, the smaller; a rank that does not answer is the oldest of all.
auto by_age(const Pulse& pulse) {
  return std::tuple(pulse.age ? -pulse.age->count() : std::numeric_limits<int64_t>::min(),
                    pulse.step, pulse.rank);
}

// A rank that answered while it still made steps may stand still since then, or it may not answer
// any more: which of the two, its next answer says, or that none comes.
bool is_hearsay(const Pulse& pulse, seconds timeout) {
  return pulse.age && pulse.told && *pulse.told < timeout / 2;
}

// The pulses of ranks that should be making steps; empty if one of them is not known.
std::vector<Pulse> complete_pulses(const Situation& s) {
  std::vector<Pulse> pulses;
  for (int64_t rank = 0; rank < s.gang.world_size(); ++rank) {
    const PodView* pod = s.gang.pod_of(rank);
    if (pod == nullptr || pod->deleting) return {};
    if (pod->phase == PodPhase::kSucceeded) continue;
    const auto found = std::find_if(s.seen.pulses.begin(), s.seen.pulses.end(),
                                    [&](const Pulse& pulse) { return pulse.rank == rank; });
    if (found == s.seen.pulses.end() || pod->phase != PodPhase::kRunning) return {};
    if (is_hearsay(*found, s.job.spec.failure_policy.stall_timeout)) return {};
    pulses.push_back(*found);
  }
  return pulses;
}

std::string describe(const Pulse& pulse, seconds idle) {
  const std::string time = std::to_string(idle.count()).append(" s");
  if (!pulse.age) return "no rank made a step for " + time + ", and this one does not answer";
  return "no rank made a step for " + time + "; this one's heartbeat is the oldest";
}

}  // namespace

std::optional<RankFailure> find_stall(const Situation& s) {
  const seconds timeout = s.job.spec.failure_policy.stall_timeout;
  if (timeout <= seconds(0) || !s.job.spec.command.empty()) return std::nullopt;
  const std::vector<Pulse> pulses = complete_pulses(s);
  std::optional<seconds> youngest;
  for (const Pulse& pulse : pulses) {
    if (pulse.age) youngest = std::min(youngest.value_or(*pulse.age), *pulse.age);
  }
  if (!youngest || *youngest < timeout) return std::nullopt;
  const Pulse suspect =
      *std::min_element(pulses.begin(), pulses.end(),
                        [](const Pulse& a, const Pulse& b) { return by_age(a) < by_age(b); });
  const PodView& pod = *s.gang.pod_of(suspect.rank);
  if (pod.node_state == NodeState::kUnready) return unreachable_rank(suspect.rank, pod);
  return RankFailure{.rank = suspect.rank,
                     .verdict = Verdict::kRestart,
                     .reason = kStalledReason,
                     .message = describe(suspect, *youngest),
                     .hint =
                         "its log may tell what it waits for; raise "
                         "failurePolicy.stallTimeoutSeconds if steps take longer",
                     .pod = pod.name,
                     .node = pod.node,
                     .step = suspect.step,
                     .exit_code = -1,
                     .blames_node = true};
}

bool asks_every_rank(const api::TrainingJob& job, seconds idle) {
  const seconds timeout = job.spec.failure_policy.stall_timeout;
  return timeout > seconds(0) && idle >= timeout / 2;
}

}  // namespace lockstep::plan

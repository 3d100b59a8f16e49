#include "operator/plan/loss.h"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "operator/plan/children.h"
#include "operator/plan/gang.h"
#include "operator/plan/status.h"
#include "runtime/common/exit_code.h"

namespace lockstep::plan {
namespace {

constexpr std::chrono::seconds kCauseDelay{10};

// A rank of the attempt answers: the silence of another is its own, and not between it and us.
bool hears_ranks(const Situation& s) {
  return std::any_of(s.seen.pulses.begin(), s.seen.pulses.end(),
                     [](const Pulse& pulse) { return pulse.age.has_value(); });
}

// Note [A node that is not ready]
bool is_cut_off(const Situation& s, std::size_t index) {
  const PodView& pod = *s.gang.pods[index];
  if (pod.node_state != NodeState::kUnready || pod.phase != PodPhase::kRunning || pod.deleting) {
    return false;
  }
  const int64_t first = s.gang.first_rank(index);
  const auto num_silent =
      std::count_if(s.seen.pulses.begin(), s.seen.pulses.end(), [&](const Pulse& pulse) {
        return pulse.rank >= first && pulse.rank < first + s.gang.ranks_per_pod && !pulse.age;
      });
  return num_silent == s.gang.ranks_per_pod && hears_ranks(s);
}

// The pods that are lost: of each the rank that failed first, with what is known of it.
std::vector<RankFailure> failures_of(const Situation& s) {
  const bool was_scheduled = is_true(s.job.status, kScheduled);  // Note [A vanished rank]
  std::vector<RankFailure> failures;
  for (std::size_t index = 0; index < s.gang.pods.size(); ++index) {
    const PodView* pod = s.gang.pods[index];
    const int64_t rank = s.gang.first_rank(index);
    if (pod == nullptr) {
      if (was_scheduled) failures.push_back(deleted_rank(rank));
    } else if (pod->phase == PodPhase::kFailed) {
      const PodRanks ranks = {.first = rank, .count = s.gang.ranks_per_pod};
      failures.push_back(classify(*pod, ranks, s.job.spec.command.empty()));
    } else if (pod->deleting && pod->is_held && !has_node(*pod)) {
      failures.push_back(deleted_rank(rank));  // it keeps its name until it is replaced
    } else if (is_unreachable(*pod, s.now) || is_cut_off(s, index)) {
      failures.push_back(unreachable_rank(rank, *pod));
    } else if (pod->phase == PodPhase::kSucceeded && !is_succeeded(s.gang, pod)) {
      failures.push_back(deleted_rank(rank));  // told to stop, and did
    }
  }
  return failures;
}

// Ranks that only miss another one, beside a rank on a node that does not answer: the node is the
// cause. Nothing if there is no such rank.
std::optional<RankFailure> lost_node_behind(const Situation& s, const RankFailure& failure) {
  const std::string_view timeout = common::reason_of(common::ExitCode::kCollectiveTimeout);
  if (!failure.is_peer_loss && failure.reason != timeout) return std::nullopt;
  for (std::size_t index = 0; index < s.gang.pods.size(); ++index) {
    const PodView* pod = s.gang.pods[index];
    if (pod == nullptr || has_ended(*pod) || pod->node_state != NodeState::kUnready) continue;
    return unreachable_rank(s.gang.first_rank(index), *pod);
  }
  return std::nullopt;
}

}  // namespace

std::optional<Loss> find_loss(const Situation& s) {
  const std::optional<RankFailure> cause = first_failure(failures_of(s));
  if (!cause) return std::nullopt;
  if (const std::optional<RankFailure> node = lost_node_behind(s, *cause)) return Loss{*node, {}};
  const bool has_running =
      std::any_of(s.gang.pods.begin(), s.gang.pods.end(), [&](const PodView* pod) {
        return pod != nullptr && pod->phase == PodPhase::kRunning && !is_unreachable(*pod, s.now);
      });
  Loss loss = {.cause = *cause, .wait_until = std::nullopt};
  if (has_running && cause->finished_at && (cause->is_peer_loss || cause->is_preemption)) {
    const std::chrono::seconds patience = cause->is_peer_loss ? kCauseDelay : grace_of_attempt(s);
    if (s.now < *cause->finished_at + patience) loss.wait_until = *cause->finished_at + patience;
  }
  return loss;
}

}  // namespace lockstep::plan

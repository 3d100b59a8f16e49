#include "operator/plan/loss.h"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <string_view>
#include <vector>

#include "operator/plan/gang.h"
#include "operator/plan/render.h"
#include "operator/plan/status.h"
#include "runtime/common/exit_code.h"

namespace lockstep::plan {
namespace {

constexpr std::chrono::seconds kCauseDelay{10};

// The ranks that are lost, each with what is known of it.
std::vector<RankFailure> failures_of(const Situation& s) {
  const bool was_scheduled = is_true(s.job.status, kScheduled);  // Note [A vanished rank]
  std::vector<RankFailure> failures;
  for (int64_t rank = 0; rank < s.gang.size(); ++rank) {
    const PodView* pod = s.gang.ranks[static_cast<std::size_t>(rank)];
    if (pod == nullptr) {
      if (was_scheduled) failures.push_back(deleted_rank(rank));
    } else if (pod->phase == PodPhase::kFailed) {
      failures.push_back(classify(*pod, rank, s.job.spec.command.empty()));
    } else if (is_unreachable(*pod, s.now)) {
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
  for (int64_t rank = 0; rank < s.gang.size(); ++rank) {
    const PodView* pod = s.gang.ranks[static_cast<std::size_t>(rank)];
    if (pod == nullptr || has_ended(*pod) || pod->node_state != NodeState::kUnready) continue;
    return unreachable_rank(rank, *pod);
  }
  return std::nullopt;
}

}  // namespace

std::optional<Loss> find_loss(const Situation& s) {
  const std::optional<RankFailure> cause = first_failure(failures_of(s));
  if (!cause) return std::nullopt;
  if (const std::optional<RankFailure> node = lost_node_behind(s, *cause)) return Loss{*node, {}};
  const bool has_running =
      std::any_of(s.gang.ranks.begin(), s.gang.ranks.end(), [&](const PodView* pod) {
        return pod != nullptr && pod->phase == PodPhase::kRunning && !is_unreachable(*pod, s.now);
      });
  Loss loss = {.cause = *cause, .wait_until = std::nullopt};
  if (has_running && cause->finished_at && (cause->is_peer_loss || cause->is_preemption)) {
    const std::chrono::seconds patience = cause->is_peer_loss ? kCauseDelay : grace_period(s.job);
    if (s.now < *cause->finished_at + patience) loss.wait_until = *cause->finished_at + patience;
  }
  return loss;
}

}  // namespace lockstep::plan

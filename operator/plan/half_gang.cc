#include "operator/plan/half_gang.h"

#include <algorithm>
#include <string>
#include <utility>

#include "operator/plan/attempt.h"
#include "operator/plan/failure.h"
#include "operator/plan/gang.h"
#include "operator/plan/queue.h"
#include "operator/plan/status.h"
#include "runtime/common/exit_code.h"
#include "runtime/common/fnv.h"

namespace lockstep::plan {
namespace {

using api::Time;
using std::chrono::seconds;

RankFailure failure_of(const Situation& s, const PodView& pod) {
  const PodRanks ranks = {.first = 0, .count = s.gang.ranks_per_pod};
  return classify(pod, ranks, s.job.spec.command.empty());
}

bool gave_up(const RankFailure& failure) {
  return failure.reason == common::reason_of(common::ExitCode::kRendezvousTimeout);
}

// Some pods were given nodes, others were not.
bool is_half(const Gang& gang) {
  const auto bound = [](const PodView* pod) { return pod != nullptr && has_node(*pod); };
  return std::any_of(gang.pods.begin(), gang.pods.end(), bound) &&
         !std::all_of(gang.pods.begin(), gang.pods.end(), bound);
}

void take_earlier(std::optional<Time>& first, const std::optional<Time>& time) {
  if (time) first = std::min(first.value_or(*time), *time);
}

std::string fraction(const HalfGang& half) {
  return std::to_string(half.num_bound).append(" of ").append(std::to_string(half.num_pods));
}

}  // namespace

std::optional<HalfGang> find_half_gang(const Situation& s) {
  const seconds timeout = s.job.spec.scheduling.gang_timeout;
  if (timeout <= seconds(0) || is_true(s.job.status, kScheduled)) return std::nullopt;
  if (!is_half(s.gang) || is_queued(s.gang)) return std::nullopt;
  HalfGang half = {.num_pods = s.gang.num_pods()};
  std::optional<Time> until;
  for (const PodView* pod : s.gang.pods) {
    if (pod == nullptr || !has_node(*pod)) continue;
    ++half.num_bound;
    if (pod->phase == PodPhase::kFailed) {
      const RankFailure failure = failure_of(s, *pod);
      if (gave_up(failure)) {
        take_earlier(until, failure.finished_at.value_or(s.now));
      } else if (!failure.is_peer_loss) {
        return std::nullopt;  // a failure of its own decides
      }
    }
    if (holds_resources(*pod) && pod->bound_at) take_earlier(until, *pod->bound_at + timeout);
  }
  if (!until) return std::nullopt;
  half.until = *until;
  return half;
}

Plan release_gang(const Situation& s, Plan next, const HalfGang& half) {
  api::TrainingJobStatus& status = next.status;
  const bool restarts = has_reason(status, kRunning, kRestartingReason);
  record_attempt(status,
                 {.number = status.attempt + 1,
                  .ranks = status.ranks.desired,
                  .ranks_per_pod = status.ranks.per_pod,
                  .reason = restarts ? kRestartingReason : kStartingReason},
                 s.now);
  ++status.gang_releases;
  const seconds pause = release_pause(s.job.meta.uid, status.attempt, status.gang_releases);
  status.restart_not_before = s.now + pause;
  next.requeue_after = pause;
  const std::string text = fraction(half) +
                           " pods had nodes while the others got none; the gang gives them back "
                           "and tries again in " +
                           std::to_string(pause.count()) + " s";
  status.message = text;
  next.events.push_back({.warning = true, .reason = kGangReleased, .message = text});
  return next;
}

void tell_releases(const Situation& s, Plan& next) {
  api::TrainingJobStatus& status = next.status;
  if (is_true(status, kScheduled)) status.gang_releases = 0;
  if (status.gang_releases <= 0) return;
  const std::string text = count_releases(status.gang_releases);
  status.message += "; " + text;
  if (!status.restart_not_before) return;
  set_condition(status, {.type = kScheduled, .reason = kGangReleased, .message = text}, s.now);
}

std::string count_releases(int64_t releases) {
  std::string times = std::to_string(releases) + " times";
  if (releases == 1) times = "once";
  if (releases == 2) times = "twice";
  return "half a gang gave its nodes back " + times;
}

seconds release_pause(std::string_view job_uid, int64_t attempt, int64_t releases) {
  constexpr int64_t kFirst = 15;
  constexpr int64_t kMaxDoublings = 5;
  constexpr int64_t kLongest = 300;
  const int64_t doublings = std::clamp<int64_t>(releases - 1, 0, kMaxDoublings);
  const int64_t half = std::min(kLongest, kFirst << doublings);
  const std::string who = std::string(job_uid).append("/").append(std::to_string(attempt));
  const uint64_t high_bits = common::fnv1a(who) >> 32;  // the low ones mix least
  return seconds(half + static_cast<int64_t>(high_bits % static_cast<uint64_t>(half)));
}

}  // namespace lockstep::plan

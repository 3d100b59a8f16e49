#include "operator/cli/log_choice.h"

#include <algorithm>
#include <optional>

#include "operator/plan/status.h"

namespace lockstep::cli {

namespace {

// The failure that somebody who asks for logs means: nothing once a newer attempt runs.
std::optional<api::FirstFailure> present_failure(const api::TrainingJob& job) {
  const std::optional<api::FirstFailure>& failure = job.status.first_failure;
  if (!failure || plan::is_true(job.status, plan::kRunning) ||
      plan::is_true(job.status, plan::kSucceeded)) {
    return std::nullopt;
  }
  return failure;
}

int64_t attempt_of(const std::optional<api::FirstFailure>& failure,
                   const std::vector<PodFact>& pods, const LogWish& wish) {
  if (wish.attempt >= 0) return wish.attempt;
  if (failure) return failure->attempt;
  int64_t newest = 0;
  for (const PodFact& pod : pods) newest = std::max(newest, pod.attempt);
  return newest;
}

std::string prefix_of(const PodFact& pod, int64_t per_pod) {
  if (per_pod == 1) return "[rank " + std::to_string(pod.rank) + "] ";
  return "[ranks " + std::to_string(pod.rank) + "-" + std::to_string(pod.rank + per_pod - 1) + "] ";
}

}  // namespace

std::vector<LogSource> choose_logs(const api::TrainingJob& job, const std::vector<PodFact>& pods,
                                   const LogWish& wish) {
  const std::optional<api::FirstFailure> failure = present_failure(job);
  const int64_t attempt = attempt_of(failure, pods, wish);
  const int64_t per_pod = std::max<int64_t>(job.status.ranks.per_pod, 1);
  const auto holds = [per_pod](const PodFact& pod, int64_t rank) {
    return pod.rank <= rank && rank < pod.rank + per_pod;
  };
  const bool is_failed_attempt = failure && failure->attempt == attempt;
  const int64_t first = wish.rank >= 0 ? wish.rank : is_failed_attempt ? failure->rank : 0;
  std::vector<PodFact> chosen;
  for (const PodFact& pod : pods) {
    if (pod.attempt == attempt && (wish.all_ranks || holds(pod, first))) chosen.push_back(pod);
  }
  std::stable_sort(chosen.begin(), chosen.end(), [&](const PodFact& a, const PodFact& b) {
    return std::pair(!holds(a, first), a.rank) < std::pair(!holds(b, first), b.rank);
  });
  std::vector<LogSource> sources;
  sources.reserve(chosen.size());
  for (const PodFact& pod : chosen) {
    sources.push_back({pod.name, wish.all_ranks ? prefix_of(pod, per_pod) : ""});
  }
  return sources;
}

}  // namespace lockstep::cli

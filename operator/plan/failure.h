// Why a rank failed, and what follows from it: one table of verdicts, each with its reason.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "operator/api/training_job.h"
#include "operator/plan/plan.h"

namespace lockstep::plan {

enum class Verdict {
  kRestart,      // a new attempt, taken from the restart budget
  kRestartFree,  // a new attempt that costs nothing: the job is not to blame
  kFail,         // the same would happen again
};

struct RankFailure {
  int64_t rank = 0;
  Verdict verdict = Verdict::kRestart;
  std::string reason;  // CamelCase
  std::string message;
  std::string hint;
  std::string pod;  // empty = it is gone
  std::string node;
  int64_t step = 0;            // last finished step, if the rank told
  int64_t exit_code = 0;       // -1 = the rank left none
  bool is_peer_loss = false;   // only lost another rank: never the cause while a cause is known
  bool is_preemption = false;  // stopped in good order: its peers are saving the same step
  bool blames_node = false;    // may be the fault of the node that it ran on
  std::optional<api::Time> finished_at;
};

// The ranks that a pod holds.
struct PodRanks {
  int64_t first = 0;
  int64_t count = 1;
};

// The failure of a pod whose phase is Failed: of the rank that its termination message names, if
// that is one of its ranks, else of the first.
//   typed_exit_codes: the container runs lockstep-runtime, so its exit codes are ours. A program of
//   the user's own may exit 78 for reasons of its own.
RankFailure classify(const PodView& pod, PodRanks ranks, bool typed_exit_codes);

// The failure of a pod's first rank; somebody else deleted the pod.
RankFailure deleted_rank(int64_t rank);
// The failure of a rank whose node is gone, or does not answer.
RankFailure unreachable_rank(int64_t rank, const PodView& pod);

// The cause among `failures`: the earliest finished one that is not a peer loss, ties by rank; one
// that left no time comes after those that did. A peer loss only if there is nothing else.
std::optional<RankFailure> first_failure(std::span<const RankFailure> failures);

// Pause before the attempt that follows the `restarts`-th charged restart (1, 2, ...):
// 1 s, 2 s, 4 s, ... at most 60 s.
std::chrono::seconds restart_backoff(int64_t restarts);

// Pause before an attempt that costs nothing, so that an endless preemption is not a hot loop.
inline constexpr std::chrono::seconds kFreeRestartDelay{5};

}  // namespace lockstep::plan

// What a rank tells about itself at /status, and what rank 0 tells about the job.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/common/result.h"
#include "runtime/common/step_parts.h"

namespace lockstep::common {

struct RankHeartbeat {
  int rank = 0;
  int64_t step = 0;         // last finished step
  double step_seconds = 0;  // of that step, without waits for the others
  // Since the rank's last finished step or phase change. Only of the rank that answers: a step ends
  // with all ranks at once, so it does not know how long ago another one did something.
  std::optional<double> age_seconds;
};

// Bytes of a rank's memory, now and at most.
struct MemoryUse {
  int64_t buffer_bytes = 0;  // allocated: weights, gradients, moments, activations and sums
  int64_t buffer_peak_bytes = 0;
  int64_t resident_bytes = 0;  // reserved of the machine by the whole process
  int64_t resident_peak_bytes = 0;
  bool operator==(const MemoryUse&) const = default;
};

// How far the work of a phase is, where that is known: pairs of the reference, rows of the data.
struct PhaseProgress {
  int64_t done = 0;
  int64_t total = 0;  // 0: not known
  bool operator==(const PhaseProgress&) const = default;
};

struct JobProgress {
  std::string job;
  int attempt = 0;
  int rank = 0;           // who answers
  std::string phase;      // starting | fetching | tokenizing | reference | training | evaluating |
                          // saving | exporting | finished
  std::string strategy;   // ddp | zero1 | zero2 | zero3
  std::string backend{};  // of communication; empty before the ranks have met
  int64_t step = 0;
  int64_t total_steps = 0;
  std::string loss;  // decimal with all digits; empty before the first step
  std::optional<std::string> validation_loss;  // of the last evaluation, as `loss`
  double tokens_per_second = 0;
  std::optional<int64_t> eta_seconds;
  std::optional<int64_t> last_checkpoint_step;
  std::vector<RankHeartbeat> ranks;  // rank 0 only
  std::optional<int> slowest_rank;   // rank 0 only
  // Since this rank's own last finished step or phase change: every rank tells it.
  std::optional<double> age_seconds{};
  // Of the last step; absent before the first one.
  std::optional<double> gradient_norm{};  // before clipping
  std::optional<double> learning_rate{};
  std::optional<double> flops_per_second{};  // model FLOP/s over all ranks, as tokens_per_second
  std::optional<double> mfu{};               // share of the ranks' peak, where that is known
  std::optional<StepParts> step_parts{};     // seconds of this rank by part
  std::optional<MemoryUse> memory{};         // of this rank
  std::optional<PhaseProgress> phase_progress{};  // of `phase`
};

// Where `rank` answers on the port of its pod, which `ranks_per_pod` ranks share.
std::string status_path(int64_t rank, int64_t ranks_per_pod);

std::string encode(const JobProgress& progress);  // JSON, camelCase
Result<JobProgress> decode_progress(std::string_view json);

}  // namespace lockstep::common

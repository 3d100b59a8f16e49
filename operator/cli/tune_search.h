// Which micro-batch `lockstep tune` tries next, and what it has found. Pure.
//
// Note [The search for a micro-batch]
// Candidates are all sizes that keep the global batch and give every rank as many micro-batches.
// The search starts at the largest that the estimate lets fit. Where a trial does not fit it goes
// down, where it fits it goes up as long as the estimate's tolerance leaves hope; then it has the
// border between what fits and what does not. Trials that are left measure the next smaller sizes,
// for the largest is not always the fastest.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "runtime/common/result.h"
#include "runtime/common/train_config.h"

namespace lockstep::cli {

struct TuneCandidate {
  int64_t micro_batch = 1;
  int64_t accumulation = 1;                            // micro-batches of a rank per step
  common::Strategy strategy = common::Strategy::kDdp;  // never kAuto
  int64_t estimated_bytes = 0;                         // of a rank
  int64_t snapshot_bytes = 0;  // of that, the copy that checkpoints are written from
};

struct TuneTrial {
  int64_t micro_batch = 1;
  bool has_run = false;        // false: out of memory
  int64_t measured_bytes = 0;  // of rank 0 at most, with the copy for checkpoints
  double tokens_per_second = 0;
  bool fits = false;  // it has run, below the limit
};

struct TuneLimits {
  int64_t memory_bytes = 0;  // of a rank
  int max_trials = 5;
};

// By rising micro-batch; not empty, since the job's own is one of them if `ranks` is right.
std::vector<TuneCandidate> tune_candidates(const common::TrainConfig& train, int64_t ranks,
                                           int64_t memory_bytes);

// The candidate to try next: its place. Nothing once all is known that may be.
std::optional<std::size_t> next_trial(const std::vector<TuneCandidate>& candidates,
                                      const std::vector<TuneTrial>& trials,
                                      const TuneLimits& limits);

// The largest micro-batch that fits; nothing if none did.
std::optional<TuneTrial> best_trial(const std::vector<TuneTrial>& trials);

struct TuneReport {
  std::string job;
  int64_t ranks = 1;
  int64_t global_batch = 0;
  int64_t memory_bytes = 0;
  std::string memory_source;  // "resources.limits.memory"
  std::vector<TuneCandidate> candidates;
  std::vector<TuneTrial> trials;
};

// For people: a line per candidate, and the --set line of the best.
std::string render_tuning(const TuneReport& report);
// For machines.
nlohmann::json to_json(const TuneReport& report);

// "train.batch.microBatchSize=4", as --set takes it.
std::string set_of(int64_t micro_batch);

// The text of a manifest with this micro-batch in its `batch`, all else as it stands, comments too.
// Error: kInvalidArgument where that cannot be done by one edit that its reader then understands.
common::Result<std::string> with_micro_batch(const std::string& manifest, int64_t micro_batch,
                                             int64_t global_batch);

}  // namespace lockstep::cli

// `lockstep estimate`: what a rank of a job will hold in memory, per strategy and rank count.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "operator/api/training_job.h"
#include "operator/cli/memory_fix.h"
#include "operator/cli/rank_memory.h"
#include "runtime/common/estimate_memory.h"

namespace CLI {
class App;
}

namespace lockstep::cli {

// One line of the answer.
struct StrategyEstimate {
  common::Strategy strategy = common::Strategy::kDdp;
  common::MemoryEstimate memory;
  bool chosen = false;
};

// The same job on another number of ranks.
struct RankCountEstimate {
  int64_t ranks = 1;
  std::vector<int64_t> total_bytes;  // of a rank, per strategy, in the order of EstimateReport's
};

struct EstimateReport {
  std::string job;
  int64_t ranks = 1;
  std::string precision;
  int64_t num_parameters = 0;
  int64_t num_trained = 0;  // adapters included, of which num_parameters has none
  RankMemory memory;
  std::string reason;                          // of the choice
  std::vector<StrategyEstimate> strategies;    // in the order ddp, zero1, zero2, zero3
  std::vector<RankCountEstimate> rank_counts;  // those around `ranks` that divide the batch
  std::optional<MemoryFix> fix;                // if what was chosen does not fit
};

// Everything that the verb tells about a job. Pure.
EstimateReport estimate_job(const std::string& name, const common::TrainConfig& train,
                            int64_t ranks, const RankMemory& memory);

// For people: a table with a line per strategy, the chosen one marked, and what does not fit; one
// with a line per rank count; and what to change if it does not fit.
std::string render_table(const EstimateReport& report);
// For machines: bytes.
nlohmann::json to_json(const EstimateReport& report);

// What `strategy: auto` comes to, and why, in one line; nothing if the job names a strategy. Pure.
// Without a limit a rank decides by the memory that it finds free.
std::optional<std::string> explain_auto_strategy(const common::TrainConfig& train, int64_t ranks,
                                                 const RankMemory& memory);
// The arithmetic of a valid job, a line each: that, how its batch is made, and what a rank will
// hold. None for a program of one's own.
std::vector<std::string> explain_arithmetic(const api::TrainingJob& job);

void add_estimate(CLI::App& app, int& status);

}  // namespace lockstep::cli

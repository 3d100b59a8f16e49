// `lockstep estimate`: what a rank of a job will hold in memory, per strategy.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "operator/api/training_job.h"
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

struct EstimateReport {
  std::string job;
  int64_t ranks = 1;
  std::string precision;
  int64_t num_parameters = 0;
  int64_t num_trained = 0;                   // adapters included, of which num_parameters has none
  std::optional<int64_t> limit_bytes;        // resources.limits.memory, of one rank
  std::string reason;                        // of the choice
  std::vector<StrategyEstimate> strategies;  // in the order ddp, zero1, zero2, zero3
};

// Everything that the verb tells about a job. Pure.
//   limit_bytes: memory of one rank; nothing if the job names no limit.
EstimateReport estimate_job(const std::string& name, const common::TrainConfig& train,
                            int64_t ranks, std::optional<int64_t> limit_bytes);

// For people: a table, one line per strategy, the chosen one marked, and what does not fit.
std::string render_table(const EstimateReport& report);
// For machines: bytes.
nlohmann::json to_json(const EstimateReport& report);

// What `strategy: auto` comes to, and why, in one line; nothing if the job names a strategy. Pure.
//   limit_bytes: as above. Without it a rank decides by the memory that it finds free.
std::optional<std::string> explain_auto_strategy(const common::TrainConfig& train, int64_t ranks,
                                                 std::optional<int64_t> limit_bytes);
// The same of a whole job, with its resources.limits.memory; nothing for a program of one's own.
std::optional<std::string> explain_auto_strategy(const api::TrainingJob& job);

void add_estimate(CLI::App& app, int& status);

}  // namespace lockstep::cli

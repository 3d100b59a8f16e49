// The memory of a job's ranks: whose it is, and how much of it there may be.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "operator/api/training_job.h"
#include "runtime/common/estimate_memory.h"
#include "runtime/common/result.h"

namespace lockstep::cli {

struct RankMemory {
  common::RankDevice device = common::RankDevice::kProcessor;
  std::optional<int64_t> limit_bytes{};  // of one rank, or of its GPU; nothing: not known here
  std::string source{};                  // of the limit: "--memory", "resources.limits.memory"
};

// What a manifest says of it: ranks compute on GPUs if their resources ask for some. How much a GPU
// has stands in no manifest, for resources.limits.memory is the host's.
//   asked: the value of --memory, which goes before; empty: none.
// kInvalidArgument if `asked` is no amount of memory.
common::Result<RankMemory> rank_memory(const api::TrainingJob& job, const std::string& asked = "");

}  // namespace lockstep::cli

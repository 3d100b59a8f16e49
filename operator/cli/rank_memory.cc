#include "operator/cli/rank_memory.h"

#include "operator/plan/resources.h"
#include "runtime/common/quantity.h"

namespace lockstep::cli {

using common::Error;
using common::ErrorCode;
using common::RankDevice;
using nlohmann::json;

common::Result<RankMemory> rank_memory(const api::TrainingJob& job, const std::string& asked) {
  RankMemory memory;
  const json& resources = job.spec.resources;
  if (plan::asks_for_gpu(resources)) memory.device = RankDevice::kGpu;
  if (!asked.empty()) {
    memory.limit_bytes = common::quantity_bytes(asked);
    memory.source = "--memory";
    if (memory.limit_bytes && *memory.limit_bytes > 0) return memory;
    return Error{ErrorCode::kInvalidArgument, "--memory: '" + asked + "' is no amount of memory",
                 "write it as 16Gi or 800Mi"};
  }
  const json::json_pointer pointer("/limits/memory");
  const bool is_limited = resources.is_object() && resources.contains(pointer);
  if (memory.device == RankDevice::kGpu || !is_limited) return memory;
  const json& limit = resources.at(pointer);
  memory.limit_bytes =
      common::quantity_bytes(limit.is_string() ? limit.get<std::string>() : limit.dump());
  memory.source = "resources.limits.memory";
  return memory;
}

}  // namespace lockstep::cli

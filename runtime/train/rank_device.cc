#include "runtime/train/rank_device.h"

#include <utility>

#include "runtime/train/run_error.h"

namespace lockstep::runtime {
namespace {

using common::Error;
using common::ErrorCode;
using common::ExitCode;
using common::OffloadTarget;

Error not_on_gpu(const char* field, const char* what) {
  return {.code = ErrorCode::kInvalidArgument,
          .message = std::string(field) + ": " + what,
          .hint =
              "leave it out, or train on processors: no GPU in the job's resources, or locally "
              "LOCKSTEP_DEVICE=cpu"};
}

}  // namespace

std::optional<Error> refused_on_gpu(const common::TrainConfig& train) {
  if (train.model.has_experts()) {
    return not_on_gpu("train.model", "a mixture of experts does not run on GPUs yet");
  }
  const common::OffloadConfig& offload = train.offload;
  for (const auto& [field, target] :
       {std::pair("train.offload.optimizer", offload.optimizer),
        std::pair("train.offload.parameters", offload.parameters),
        std::pair("train.offload.activations", offload.activations)}) {
    if (target != OffloadTarget::kNone) {
      return not_on_gpu(field, "nothing is offloaded from GPUs yet");
    }
  }
  return std::nullopt;
}

void choose_device(const common::WorkerEnv& env, const common::TrainConfig& train) {
  if (env.device == common::DeviceChoice::kProcessor) return;
  if (std::optional<Error> refused = refused_on_gpu(train)) {
    throw RunError(to_failure(ExitCode::kInvalidConfig, *refused));
  }
  compute_on(value_or_raise(gpu_of_rank(env), ExitCode::kNoDevice));
}

}  // namespace lockstep::runtime

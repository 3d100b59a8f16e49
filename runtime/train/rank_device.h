// Which device a rank computes on.
#pragma once

#include <optional>

#include "runtime/common/result.h"
#include "runtime/common/train_config.h"
#include "runtime/common/worker_env.h"
#include "runtime/kernels/device.h"

namespace lockstep::runtime {

// What of `train` does not run on a GPU yet (kInvalidArgument), by its field; or nothing.
std::optional<common::Error> refused_on_gpu(const common::TrainConfig& train);

// The GPU of a rank, by its number in its pod; with sharing, ranks take turns over the GPUs that
// there are, and each counts on its part of their memory. kUnavailable if there is none that can be
// used, or the library is missing.
common::Result<Device> gpu_of_rank(const common::WorkerEnv& env);

// Has this process compute on what LOCKSTEP_DEVICE names, as compute_on(). Throws RunError:
// kNoDevice if the rank has no GPU, kInvalidConfig if `train` asks for what does not run on one.
void choose_device(const common::WorkerEnv& env, const common::TrainConfig& train);

}  // namespace lockstep::runtime

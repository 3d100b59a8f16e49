// CustomLoopOptions as the parts of the trainer read them.
#pragma once

#include <cstdint>
#include <string_view>

#include "runtime/common/train_config.h"
#include "runtime/custom/custom_loop.h"

namespace lockstep::runtime {

// As a job names it.
std::string_view optimizer_name(common::OptimizerConfig::Kind kind);

// Throws RunError(kInvalidConfig) naming every option that is out of the bounds of its field in a
// job's `train`, or excludes another.
void check_options(const CustomLoopOptions& options, int64_t ranks);

// A micro-batch counts as one sample of one token.
common::TrainConfig config_of(const CustomLoopOptions& options);

}  // namespace lockstep::runtime

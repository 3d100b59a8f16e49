// AdamW over slices of units. An element's bits do not depend on how the units are sliced.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "runtime/common/train_config.h"
#include "runtime/optim/param_shard.h"

namespace lockstep::runtime {

// Elements [begin_elem, end_elem) of a unit, with or without weight decay.
struct DecayRange {
  int64_t begin_elem = 0;
  int64_t end_elem = 0;
  bool decays = true;
};

// What changes from step to step.
struct AdamWArguments {
  int64_t step = 1;  // counted from 1, for the bias corrections
  double lr = 0;
  float gradient_scale = 1;  // clip factor
};

class AdamWOptimizer {
 public:
  // ranges[unit]: contiguous, in order, covering the unit (see decay_ranges() in parallel/).
  AdamWOptimizer(const common::OptimizerConfig& config,
                 std::vector<std::vector<DecayRange>> ranges);

  // Updates weights and moments of every shard in place from its gradient, which is only read.
  void step(const AdamWArguments& arguments, std::span<const ParamShard> shards) const;

 private:
  common::OptimizerConfig config_;
  std::vector<std::vector<DecayRange>> ranges_;
};

}  // namespace lockstep::runtime

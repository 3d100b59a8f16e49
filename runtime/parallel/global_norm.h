// The gradient norm over all ranks; same bits on every rank count and strategy.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "runtime/comm/collective.h"
#include "runtime/optim/global_norm.h"
#include "runtime/optim/param_shard.h"
#include "runtime/parallel/shard_layout.h"

namespace lockstep::runtime {

class GlobalNorm {
 public:
  //   unit_elems: as the parallelism has them, but 0 for a frozen unit, which has no gradient.
  // `collective` must outlive this object.
  GlobalNorm(Collective& collective, std::span<const int64_t> unit_elems);

  // Norm over the gradients of all ranks' Parallelism::owned(), of at most one slice per unit.
  // Every rank must call it, after finish_backward(); blocks for one all_gather. Throws as
  // Pending::wait().
  //   clip, loss_scale: as gradient_norm() has them.
  GradientNorm compute(std::span<const ParamShard> owned, double clip, double loss_scale = 1);

 private:
  Collective& collective_;
  std::vector<UnitSlices> layouts_;
  int64_t rank_elems_ = 0;        // per unit: index of the first chunk, then a slice of chunk sums
  std::vector<double> gathered_;  // [world_size * rank_elems_]
  std::vector<double> ordered_;   // chunk sums of the model, in unit and chunk order
};

}  // namespace lockstep::runtime

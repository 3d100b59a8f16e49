// Full weights on every rank.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "runtime/comm/collective.h"
#include "runtime/parallel/weight_source.h"

namespace lockstep::runtime {

class ResidentWeights final : public WeightSource {
 public:
  // units[unit]: the full buffer, one equal slice per rank; outlives this object, as `collective`.
  //   gathers: every rank changes its own slice only, so refresh() gathers the others, unit after
  //   unit in forward order, behind whatever follows; acquire() waits for its unit. Otherwise every
  //   rank changes all of it alike.
  //   frozen: [unit], those that only the first refresh() gathers; empty = none.
  ResidentWeights(Collective& collective, std::vector<std::span<std::byte>> units, bool gathers,
                  std::vector<bool> frozen = {});

  const std::byte* acquire(int64_t unit, int64_t next) override;
  void release(int64_t unit) override;
  void refresh() override;

 private:
  Collective& collective_;
  std::vector<std::span<std::byte>> units_;
  bool gathers_;
  std::vector<bool> frozen_;
  bool is_complete_ = false;         // a refresh() has gathered all
  std::vector<PendingPtr> pending_;  // [unit]; null when the weights are there
};

}  // namespace lockstep::runtime

// A small training run on synthetic gradients, for comparing rank counts, strategies and backends
// bit by bit.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "runtime/common/train_config.h"
#include "runtime/kernels/elementwise.h"
#include "runtime/optim/optimizer.h"
#include "runtime/optim/schedule.h"
#include "runtime/parallel/global_norm.h"
#include "runtime/parallel/make_parallelism.h"

namespace lockstep::runtime {

struct SyntheticRun {
  // Sizes that cut chunks, leave ranks with nothing (500 elements) and need several slices.
  std::vector<int64_t> unit_elems = {5000, 500, 12345, 2048};
  int64_t num_micro_batches = 12;
  int64_t steps = 4;
  common::OptimizerConfig optimizer{};
  DType dtype = DType::kFp32;
  std::vector<bool> frozen{};  // [unit]; empty = none
};

// What every rank count must agree on.
struct SyntheticResult {
  std::vector<std::vector<float>> weights;       // [unit]
  std::vector<std::vector<float>> gradient_sum;  // [unit], of the last step
  std::vector<double> norms;                     // [step]
  bool operator==(const SyntheticResult&) const = default;
};

// A float in (-1, 1) that depends on all its arguments (splitmix64).
inline float sample_float(int64_t a, int64_t b, int64_t c, int64_t d) {
  uint64_t x = static_cast<uint64_t>(((a * 1009 + b) * 10007 + c) * 1000003 + d);
  x += 0x9e3779b97f4a7c15ULL;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
  x ^= x >> 31;
  return static_cast<float>(static_cast<double>(x >> 11) * 0x1.0p-52 - 1.0);
}

inline bool is_frozen(const SyntheticRun& run, int64_t unit) {
  return !run.frozen.empty() && run.frozen[static_cast<size_t>(unit)];
}

// Forward touches every unit's weights; backward writes gradients that depend on them.
inline void compute_micro_batch(Parallelism& parallelism, const SyntheticRun& run, int64_t step,
                                int64_t micro_batch) {
  const auto num_units = static_cast<int64_t>(run.unit_elems.size());
  for (int64_t unit = 0; unit < num_units; ++unit) {
    parallelism.unshard(unit, unit + 1 < num_units ? unit + 1 : -1);
    parallelism.reshard(unit);
  }
  for (int64_t unit = num_units - 1; unit >= 0; --unit) {
    std::vector<float> weights(static_cast<size_t>(run.unit_elems[static_cast<size_t>(unit)]));
    widen(static_cast<int64_t>(weights.size()), parallelism.unshard(unit, unit - 1),
          weights.data());
    float* const gradient = parallelism.gradient_buffer(unit);
    if (is_frozen(run, unit)) {
      EXPECT_EQ(gradient, nullptr);
      parallelism.reshard(unit);
      continue;
    }
    for (int64_t i = 0; i < run.unit_elems[static_cast<size_t>(unit)]; ++i) {
      gradient[i] =
          sample_float(step, micro_batch, unit, i) + 0.1F * weights[static_cast<size_t>(i)];
    }
    parallelism.reshard(unit);
    parallelism.gradient_ready(unit);
  }
}

// Runs one rank; writes its owned parts of the result into `shared` (all ranks' parts tile it).
inline void run_rank(const SyntheticRun& run, const common::ParallelismConfig& config,
                     Collective& collective, SyntheticResult& shared, std::mutex& mutex,
                     std::unique_ptr<SwapFile> swap_file = nullptr) {
  const auto parallelism = make_parallelism({.config = config,
                                             .unit_elems = run.unit_elems,
                                             .frozen = run.frozen,
                                             .num_micro_batches = run.num_micro_batches,
                                             .num_moments = num_moments(run.optimizer),
                                             .dtype = run.dtype,
                                             .swap_piece_elems = kNormChunkElems},
                                            collective, std::move(swap_file));
  parallelism->visit_shards(StateAccess::kFill, [](const ParamShard& shard) {
    for (size_t i = 0; i < shard.weights.size(); ++i) {
      shard.weights[i] =
          sample_float(-1, -1, shard.unit, shard.begin_elem + static_cast<int64_t>(i));
    }
    std::fill(shard.moment1.begin(), shard.moment1.end(), 0.0F);
    std::fill(shard.moment2.begin(), shard.moment2.end(), 0.0F);
  });
  parallelism->weights_updated();
  DecayRanges ranges;
  for (const int64_t elems : run.unit_elems) {
    ranges.push_back({{0, elems / 3, true}, {elems / 3, elems, false}});
  }
  const auto optimizer = make_optimizer(run.optimizer, ranges);
  std::vector<int64_t> trained_elems = run.unit_elems;
  for (size_t unit = 0; unit < trained_elems.size(); ++unit) {
    if (is_frozen(run, static_cast<int64_t>(unit))) trained_elems[unit] = 0;
  }
  GlobalNorm norm(collective, trained_elems);
  std::vector<double> norms;
  for (int64_t step = 1; step <= run.steps; ++step) {
    for (const int64_t micro_batch : parallelism->micro_batches()) {
      compute_micro_batch(*parallelism, run, step, micro_batch);
    }
    parallelism->finish_backward();
    const GradientNorm total = norm.compute(parallelism->owned(), run.optimizer.gradient_clip);
    norms.push_back(total.norm);
    const OptimizerStep update = {
        .step = step,
        .lr = lr_at({.decay_steps = run.steps}, run.optimizer.lr, step, run.steps),
        .gradient_scale = total.gradient_scale};
    parallelism->visit_shards(StateAccess::kUpdate, [&](const ParamShard& shard) {
      optimizer->step(update, std::span(&shard, 1));
    });
    parallelism->weights_updated();
  }
  const std::lock_guard lock(mutex);
  parallelism->visit_owned(StateAccess::kReadWeights, [&](const ParamShard& shard) {
    const auto unit = static_cast<size_t>(shard.unit);
    std::copy(shard.weights.begin(), shard.weights.end(),
              shared.weights[unit].begin() + shard.begin_elem);
    std::copy(shard.gradient.begin(), shard.gradient.end(),
              shared.gradient_sum[unit].begin() + shard.begin_elem);
  });
  if (shared.norms.empty()) shared.norms = norms;
  EXPECT_EQ(shared.norms, norms) << "ranks disagree";
}

// NaN everywhere, so that a part that nobody owns is found; 0 for gradients that there are not.
inline SyntheticResult empty_result(const SyntheticRun& run) {
  SyntheticResult result;
  for (const int64_t elems : run.unit_elems) {
    result.weights.emplace_back(static_cast<size_t>(elems), NAN);
    const auto unit = static_cast<int64_t>(result.gradient_sum.size());
    result.gradient_sum.emplace_back(static_cast<size_t>(elems), is_frozen(run, unit) ? 0 : NAN);
  }
  return result;
}

}  // namespace lockstep::runtime

// Dropout whose mask is a function of where it is in training, not of the rank.
//
// Note [Masks]
// Element i of the input of module `module` of layer `layer` is dropped if 16 bits of a counter are
// below `rate`: of Philox under the seed, counted by (i / 8, module and layer, step, micro-batch).
// So forward, its recomputation and backward see one mask, which no rank count changes, and which a
// resumed run draws again. A rate is rounded to a multiple of 2^-16.
#pragma once

#include <cstdint>

namespace lockstep::runtime {

// Which micro-batch is computed.
struct TrainingPlace {
  uint64_t seed = 0;
  int64_t step = 0;         // finished ones
  int64_t micro_batch = 0;  // in the global batch
};

struct DropoutMask {
  double rate = 0;  // in [0, 1)
  TrainingPlace place;
  int64_t layer = 0;
  int64_t module = 0;  // of the layer, below 256
};

// x[i] = 0 where element i is dropped, else x[i] / (1 - rate).
//   x: [n], fp32.
void apply_dropout(const DropoutMask& mask, int64_t n, float* x);

}  // namespace lockstep::runtime

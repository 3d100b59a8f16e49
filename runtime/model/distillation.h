// What a teacher says of the rows of a micro-batch, as the head takes it.
#pragma once

#include <cstdint>
#include <functional>

#include "runtime/kernels/elementwise.h"

namespace lockstep::runtime {

// The loss of a row with a label is (1 - alpha) times its cross-entropy and alpha temperature^2
// times the divergence of what the teacher says of it from what the model does.
// Source: Hinton et al., arXiv:1503.02531.
struct Distillation {
  DistillFactors factors;
  // The teacher's logits of rows [begin_row, begin_row + num_rows), [num_rows, vocab], which the
  // caller may overwrite; valid until the next call. Chunks of the head's size are asked for.
  std::function<float*(int64_t begin_row, int64_t num_rows)> logits;
};

}  // namespace lockstep::runtime

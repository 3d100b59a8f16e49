// The gradient's norm over the whole model, from sums of squares of its fixed chunks.
#pragma once

#include <span>

namespace lockstep::runtime {

struct GradientNorm {
  double norm = 0;
  float clip_scale = 1;  // factor for every gradient element
  bool finite = true;    // false: the step must not be taken
};

// Adds `chunk_sums` (sums of squares in the model's chunk order) one after the other, so that the
// bits do not depend on who computed which chunk. clip_scale = min(1, clip / (norm + 1e-6)) as
// torch.nn.utils.clip_grad_norm_; clip 0 = off.
GradientNorm gradient_norm(std::span<const double> chunk_sums, double clip);

}  // namespace lockstep::runtime

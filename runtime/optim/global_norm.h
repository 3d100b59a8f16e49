// The gradient's norm over the whole model, from sums of squares of its fixed chunks.
#pragma once

#include <span>

namespace lockstep::runtime {

struct GradientNorm {
  double norm = 0;
  float gradient_scale = 1;  // factor for every gradient element: clips, takes the loss scale off
  bool finite = true;        // false: the step must not be taken
};

// Adds `chunk_sums` (sums of squares in the model's chunk order) one after the other, so that the
// bits do not depend on who computed which chunk. The norm is that of the gradient without the loss
// scale that it was computed with. gradient_scale = min(1, clip / (norm + 1e-6)) / loss_scale, as
// torch.nn.utils.clip_grad_norm_ clips; clip 0 = off.
GradientNorm gradient_norm(std::span<const double> chunk_sums, double clip, double loss_scale = 1);

}  // namespace lockstep::runtime

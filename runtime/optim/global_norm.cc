#include "runtime/optim/global_norm.h"

#include <algorithm>
#include <cmath>

namespace lockstep::runtime {

GradientNorm gradient_norm(std::span<const double> chunk_sums, double clip) {
  double sum = 0;
  for (const double chunk : chunk_sums) sum += chunk;
  GradientNorm result;
  result.norm = std::sqrt(sum);
  result.finite = std::isfinite(result.norm);
  if (clip > 0 && result.finite) {
    result.clip_scale = static_cast<float>(std::min(1.0, clip / (result.norm + 1e-6)));
  }
  return result;
}

}  // namespace lockstep::runtime

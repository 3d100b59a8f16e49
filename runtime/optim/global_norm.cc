#include "runtime/optim/global_norm.h"

#include <algorithm>
#include <cmath>

namespace lockstep::runtime {

GradientNorm gradient_norm(std::span<const double> chunk_sums, double clip, double loss_scale) {
  double sum = 0;
  for (const double chunk : chunk_sums) sum += chunk;
  GradientNorm result;
  result.norm = std::sqrt(sum) / loss_scale;
  result.finite = std::isfinite(result.norm);
  const double factor =
      clip > 0 && result.finite ? std::min(1.0, clip / (result.norm + 1e-6)) : 1.0;
  result.gradient_scale = static_cast<float>(factor / loss_scale);
  return result;
}

}  // namespace lockstep::runtime

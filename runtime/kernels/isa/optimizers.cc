// The optimizers' updates, which treat every element alone.
#include "runtime/kernels/isa/kernels.h"
#include "runtime/kernels/isa/vector_math.h"

namespace lockstep::runtime::LOCKSTEP_ISA {
namespace {

// Weight decay of the weight itself, and of its gradient.
struct DecayOfWeight {
  float factor;
  LOCKSTEP_MEMBER void apply(Vec& w, Vec& /*g*/) const { w = fma(broadcast(factor), w, w); }
};
struct DecayOfGradient {
  float factor;
  LOCKSTEP_MEMBER void apply(Vec& w, Vec& g) const { g = fma(broadcast(factor), w, g); }
};

template <typename Decay>
void update_adam(const AdamStep& step, int64_t n, const float* gradient, float* weight, float* m,
                 float* v, const Decay& decay) {
  const auto scale = static_cast<float>(step.gradient_scale);
  const auto beta2 = static_cast<float>(step.beta2);
  const auto new1 = static_cast<float>(1 - step.beta1);
  const auto new2 = static_cast<float>(1 - step.beta2);
  const auto root_correction2 = static_cast<float>(__builtin_sqrt(step.bias_correction2));
  const auto eps = static_cast<float>(step.eps);
  const auto minus_step = static_cast<float>(-step.lr / step.bias_correction1);
  for_every_vec(
      n, LOCKSTEP_KERNEL(int64_t i, auto lanes) {
        Vec g = load(gradient + i, lanes) * broadcast(scale);
        Vec w = load(weight + i, lanes);
        Vec mean = load(m + i, lanes);
        Vec square = load(v + i, lanes);
        decay.apply(w, g);
        mean = fma(broadcast(new1), g - mean, mean);
        square = fma(broadcast(new2) * g, g, broadcast(beta2) * square);
        const Vec denominator = sqrt(square) / broadcast(root_correction2) + broadcast(eps);
        w = fma(broadcast(minus_step), mean / denominator, w);
        store(weight + i, w, lanes);
        store(m + i, mean, lanes);
        store(v + i, square, lanes);
      });
}

}  // namespace

void adamw(const AdamStep& step, int64_t n, const float* gradient, float* weight, float* m,
           float* v) {
  update_adam(step, n, gradient, weight, m, v,
              DecayOfWeight{static_cast<float>(-step.lr * step.weight_decay)});
}

void adam(const AdamStep& step, int64_t n, const float* gradient, float* weight, float* m,
          float* v) {
  update_adam(step, n, gradient, weight, m, v,
              DecayOfGradient{static_cast<float>(step.weight_decay)});
}

void sgd(const SgdStep& step, int64_t n, const float* gradient, float* weight, float* buffer) {
  const auto scale = static_cast<float>(step.gradient_scale);
  const auto decay = static_cast<float>(step.weight_decay);
  const auto momentum = static_cast<float>(step.momentum);
  const auto minus_lr = static_cast<float>(-step.lr);
  const bool nesterov = step.nesterov;
  for_every_vec(
      n, LOCKSTEP_KERNEL(int64_t i, auto lanes) {
        const Vec w = load(weight + i, lanes);
        Vec g = fma(broadcast(decay), w, load(gradient + i, lanes) * broadcast(scale));
        if (buffer != nullptr) {
          const Vec b = broadcast(momentum) * load(buffer + i, lanes) + g;
          store(buffer + i, b, lanes);
          g = nesterov ? fma(broadcast(momentum), b, g) : b;
        }
        store(weight + i, fma(broadcast(minus_lr), g, w), lanes);
      });
}

}  // namespace lockstep::runtime::LOCKSTEP_ISA

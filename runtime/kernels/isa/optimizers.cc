// The optimizers' updates, which treat every element alone.
#include "runtime/kernels/isa/kernels.h"
#include "runtime/kernels/isa/vector_math.h"

namespace lockstep::runtime::LOCKSTEP_ISA {
namespace {

// `decay(w, g)` applies weight decay to a weight, or to its gradient.
template <typename Decay>
void update_adam(const AdamStep& step, int64_t n, const float* gradient, float* weight, float* m,
                 float* v, const Decay& decay) {
  const Vec scale = broadcast(static_cast<float>(step.gradient_scale));
  const Vec beta2 = broadcast(static_cast<float>(step.beta2));
  const Vec new1 = broadcast(static_cast<float>(1 - step.beta1));
  const Vec new2 = broadcast(static_cast<float>(1 - step.beta2));
  const Vec root_correction2 = broadcast(static_cast<float>(__builtin_sqrt(step.bias_correction2)));
  const Vec eps = broadcast(static_cast<float>(step.eps));
  const Vec minus_step = broadcast(static_cast<float>(-step.lr / step.bias_correction1));
  for_each_vec(n, [&](int64_t i, auto lanes) {
    Vec g = load(gradient + i, lanes) * scale;
    Vec w = load(weight + i, lanes);
    Vec mean = load(m + i, lanes);
    Vec square = load(v + i, lanes);
    decay(w, g);
    mean = fma(new1, g - mean, mean);
    square = fma(new2 * g, g, beta2 * square);
    const Vec denominator = sqrt(square) / root_correction2 + eps;
    w = fma(minus_step, mean / denominator, w);
    store(weight + i, w, lanes);
    store(m + i, mean, lanes);
    store(v + i, square, lanes);
  });
}

}  // namespace

void adamw(const AdamStep& step, int64_t n, const float* gradient, float* weight, float* m,
           float* v) {
  const Vec minus_decay = broadcast(static_cast<float>(-step.lr * step.weight_decay));
  update_adam(step, n, gradient, weight, m, v,
              [minus_decay](Vec& w, Vec& /*g*/) { w = fma(minus_decay, w, w); });
}

void adam(const AdamStep& step, int64_t n, const float* gradient, float* weight, float* m,
          float* v) {
  const Vec decay = broadcast(static_cast<float>(step.weight_decay));
  update_adam(step, n, gradient, weight, m, v,
              [decay](const Vec& w, Vec& g) { g = fma(decay, w, g); });
}

void sgd(const SgdStep& step, int64_t n, const float* gradient, float* weight, float* buffer) {
  const Vec scale = broadcast(static_cast<float>(step.gradient_scale));
  const Vec decay = broadcast(static_cast<float>(step.weight_decay));
  const Vec momentum = broadcast(static_cast<float>(step.momentum));
  const Vec minus_lr = broadcast(static_cast<float>(-step.lr));
  for_each_vec(n, [&](int64_t i, auto lanes) {
    const Vec w = load(weight + i, lanes);
    Vec g = fma(decay, w, load(gradient + i, lanes) * scale);
    if (buffer != nullptr) {
      const Vec b = momentum * load(buffer + i, lanes) + g;
      store(buffer + i, b, lanes);
      g = step.nesterov ? fma(momentum, b, g) : b;
    }
    store(weight + i, fma(minus_lr, g, w), lanes);
  });
}

}  // namespace lockstep::runtime::LOCKSTEP_ISA

// Kernels with a sum over a row or chunk: RMS norm, cross-entropy, sums of squares. A sum runs in
// sixteen lanes (element i in lane i mod 16), then over the lanes in sum_lanes' order.
#include "runtime/kernels/isa/half.h"
#include "runtime/kernels/isa/kernels.h"
#include "runtime/kernels/isa/vector_math.h"

namespace lockstep::runtime::LOCKSTEP_ISA {
namespace {

struct RowSum {
  float top;  // the largest element
  float sum;  // of what softmax_row() took e^(x - top) for
};

// Replaces the n elements of a row by `scale` times their softmax.
LOCKSTEP_INLINE RowSum softmax_row(int64_t n, float scale, float* row) {
  Vec most = broadcast(row[0]);
  for_each_vec(n, [&](int64_t i, auto lanes) {
    most = max(select(lanes, load(row + i, lanes), most), most);
  });
  const float top = max_lanes(most);
  Vec sums = zero();
  for_each_vec(n, [&](int64_t i, auto lanes) {
    const Vec p = exp(load(row + i, lanes) - broadcast(top));
    sums = sums + select(lanes, p, zero());
    store(row + i, p, lanes);
  });
  const float sum = sum_lanes(sums);
  const Vec factor = broadcast(scale / sum);
  for_each_vec(
      n, [&](int64_t i, auto lanes) { store(row + i, load(row + i, lanes) * factor, lanes); });
  return {top, sum};
}

// Softmax and loss of one row; the row is replaced by scale * (softmax - one hot).
double cross_entropy_row(int64_t vocab, int32_t label, float scale, float* row) {
  const float label_logit = row[label];
  const auto [top, sum] = softmax_row(vocab, scale, row);
  row[label] -= scale;
  constexpr double kLn2 = 0.69314718055994530942;
  return kLn2 * log2(static_cast<double>(sum)) +
         (static_cast<double>(top) - static_cast<double>(label_logit));
}

template <class W, class T>
void rms_norm_forward_typed(int64_t rows, int64_t channels, float eps, const float* x,
                            const W* weight, T* y, float* rstd) {
  for (int64_t row = 0; row < rows; ++row, x += channels, y += channels) {
    Vec squares = zero();
    for_each_vec(channels, [&](int64_t i, auto lanes) {
      const Vec value = load(x + i, lanes);
      squares = fma(value, value, squares);
    });
    const float mean = sum_lanes(squares) / static_cast<float>(channels);
    rstd[row] = 1.0F / __builtin_sqrtf(mean + eps);
    const Vec factor = broadcast(rstd[row]);
    for_each_vec(channels, [&](int64_t i, auto lanes) {
      store(y + i, load(x + i, lanes) * factor * load(weight + i, lanes), lanes);
    });
  }
}

template <class T>
void layer_norm_forward_typed(int64_t rows, int64_t channels, float eps, const float* x,
                              const float* weight, const float* bias, T* y, float* stats) {
  const auto count = static_cast<float>(channels);
  for (int64_t row = 0; row < rows; ++row, x += channels, y += channels) {
    Vec sums = zero();
    for_each_vec(channels, [&](int64_t i, auto lanes) { sums = sums + load(x + i, lanes); });
    const float mean = sum_lanes(sums) / count;
    const Vec minus_mean = broadcast(-mean);
    Vec squares = zero();
    for_each_vec(channels, [&](int64_t i, auto lanes) {
      const Vec distance = select(lanes, load(x + i, lanes) + minus_mean, zero());
      squares = fma(distance, distance, squares);
    });
    stats[row] = mean;
    stats[rows + row] = 1.0F / __builtin_sqrtf(sum_lanes(squares) / count + eps);
    const Vec factor = broadcast(stats[rows + row]);
    for_each_vec(channels, [&](int64_t i, auto lanes) {
      const Vec normed = (load(x + i, lanes) + minus_mean) * factor;
      store(y + i, fma(normed, load(weight + i, lanes), load(bias + i, lanes)), lanes);
    });
  }
}

template <class T>
void rms_norm_backward_typed(int64_t rows, int64_t channels, const float* x, const T* weight,
                             const float* rstd, const float* dy, const float* residual, float* dx,
                             float* d_weight) {
  const bool has_gradient = d_weight != nullptr;
  for_each_vec(has_gradient ? channels : 0,
               [&](int64_t i, auto lanes) { store(d_weight + i, zero(), lanes); });
  for (int64_t row = 0; row < rows; ++row, x += channels, dy += channels, dx += channels) {
    Vec dots = zero();
    for_each_vec(channels, [&](int64_t i, auto lanes) {
      dots = fma(load(dy + i, lanes) * load(weight + i, lanes), load(x + i, lanes), dots);
    });
    const float r = rstd[row];
    const float projection = sum_lanes(dots) / static_cast<float>(channels) * r * r;
    const Vec factor = broadcast(r);
    const Vec minus_projection = broadcast(-projection);
    for_each_vec(channels, [&](int64_t i, auto lanes) {
      const Vec value = load(x + i, lanes);
      const Vec grad = load(dy + i, lanes);
      if (has_gradient) {
        store(d_weight + i, fma(grad, value * factor, load(d_weight + i, lanes)), lanes);
      }
      const Vec before = residual == nullptr ? zero() : load(residual + i, lanes);
      const Vec inner = fma(value, minus_projection, grad * load(weight + i, lanes));
      store(dx + i, fma(inner, factor, before), lanes);
    });
    if (residual != nullptr) residual += channels;
  }
}

}  // namespace

void rms_norm_forward(int64_t rows, int64_t channels, float eps, const float* x, ConstValues weight,
                      Values y, float* rstd) {
  with_stored_type(y.dtype, [=]<class T>(Stored<T>) {
    T* const to = static_cast<T*>(y.data);
    if (weight.dtype == y.dtype) {
      rms_norm_forward_typed(rows, channels, eps, x, static_cast<const T*>(weight.data), to, rstd);
    } else {
      rms_norm_forward_typed(rows, channels, eps, x, static_cast<const float*>(weight.data), to,
                             rstd);
    }
  });
}

void rms_norm_backward(int64_t rows, int64_t channels, const float* x, ConstValues weight,
                       const float* rstd, const float* dy, const float* residual, float* dx,
                       float* d_weight) {
  with_stored_type(weight.dtype, [=]<class T>(Stored<T>) {
    rms_norm_backward_typed(rows, channels, x, static_cast<const T*>(weight.data), rstd, dy,
                            residual, dx, d_weight);
  });
}

void layer_norm_forward(int64_t rows, int64_t channels, float eps, const float* x,
                        const float* weight, const float* bias, Values y, float* stats) {
  with_stored_type(y.dtype, [=]<class T>(Stored<T>) {
    layer_norm_forward_typed(rows, channels, eps, x, weight, bias, static_cast<T*>(y.data), stats);
  });
}

void layer_norm_backward(int64_t rows, int64_t channels, const float* x, const float* weight,
                         const float* stats, const float* dy, const float* residual, float* dx,
                         float* d_weight, float* d_bias) {
  const bool has_gradient = d_weight != nullptr;
  for_each_vec(has_gradient ? channels : 0, [&](int64_t i, auto lanes) {
    store(d_weight + i, zero(), lanes);
    store(d_bias + i, zero(), lanes);
  });
  for (int64_t row = 0; row < rows; ++row, x += channels, dy += channels, dx += channels) {
    const Vec minus_mean = broadcast(-stats[row]);
    const Vec factor = broadcast(stats[rows + row]);
    Vec sums = zero();
    Vec dots = zero();
    for_each_vec(channels, [&](int64_t i, auto lanes) {
      const Vec grad = load(dy + i, lanes) * load(weight + i, lanes);
      sums = sums + grad;
      dots = fma(grad, (load(x + i, lanes) + minus_mean) * factor, dots);
    });
    const Vec minus_sum = broadcast(-sum_lanes(sums) / static_cast<float>(channels));
    const Vec minus_dot = broadcast(-sum_lanes(dots) / static_cast<float>(channels));
    for_each_vec(channels, [&](int64_t i, auto lanes) {
      const Vec normed = (load(x + i, lanes) + minus_mean) * factor;
      const Vec grad = load(dy + i, lanes);
      if (has_gradient) {
        store(d_weight + i, fma(grad, normed, load(d_weight + i, lanes)), lanes);
        store(d_bias + i, load(d_bias + i, lanes) + grad, lanes);
      }
      const Vec before = residual == nullptr ? zero() : load(residual + i, lanes);
      const Vec inner = fma(normed, minus_dot, grad * load(weight + i, lanes) + minus_sum);
      store(dx + i, fma(inner, factor, before), lanes);
    });
    if (residual != nullptr) residual += channels;
  }
}

void softmax(int64_t rows, int64_t n, float* x) {
  for (int64_t row = 0; row < rows; ++row) softmax_row(n, 1.0F, x + row * n);
}

double cross_entropy(int64_t rows, int64_t vocab, const int32_t* labels, float scale,
                     float* logits) {
  double loss = 0;
  for (int64_t row = 0; row < rows; ++row, logits += vocab) {
    if (labels[row] < 0) {
      for_each_vec(vocab, [&](int64_t i, auto lanes) { store(logits + i, zero(), lanes); });
      continue;
    }
    loss += cross_entropy_row(vocab, labels[row], scale, logits);
  }
  return loss;
}

void sum_squares_chunks(int64_t n, const float* x, double* chunk_sums) {
  for (int64_t begin = 0; begin < n; begin += kNormChunkElems, ++chunk_sums) {
    const int64_t count = n - begin < kNormChunkElems ? n - begin : kNormChunkElems;
    double lane[kLanes] = {};
    int64_t i = 0;
    for (; i + kLanes <= count; i += kLanes) {
      for (int64_t l = 0; l < kLanes; ++l) {
        const double value = static_cast<double>(x[begin + i + l]);
        lane[l] += value * value;
      }
    }
    for (int64_t l = 0; i + l < count; ++l) {
      const double value = static_cast<double>(x[begin + i + l]);
      lane[l] += value * value;
    }
    for (int64_t half = kLanes / 2; half > 0; half /= 2) {
      for (int64_t l = 0; l < half; ++l) lane[l] += lane[l + half];
    }
    *chunk_sums = lane[0];
  }
}

}  // namespace lockstep::runtime::LOCKSTEP_ISA

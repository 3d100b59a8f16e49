// Kernels with a sum over a row or chunk: RMS norm, cross-entropy, sums of squares. A sum runs in
// sixteen lanes (element i in lane i mod 16), then over the lanes in sum_lanes' order.
#include "runtime/kernels/isa/column_sums.h"
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

// Softmax and loss of one row; the row is replaced by scale * (softmax - one hot), or by zero if
// the label is negative.
LOCKSTEP_INLINE double cross_entropy_row(int64_t vocab, int32_t label, float scale, float* row) {
  if (label < 0) {
    for_each_vec(vocab, [&](int64_t i, auto lanes) { store(row + i, zero(), lanes); });
    return 0;
  }
  const float label_logit = row[label];
  const RowSum softmax = softmax_row(vocab, scale, row);
  subtract_once(row, label, scale);
  constexpr double kLn2 = 0.69314718055994530942;
  return kLn2 * log2(static_cast<double>(softmax.sum)) +
         (static_cast<double>(softmax.top) - static_cast<double>(label_logit));
}

template <class W, class T>
void rms_norm_forward_typed(int64_t rows, int64_t channels, float eps, const float* x,
                            const W* weight, T* y, float* rstd) {
  for_each_row(
      rows, LOCKSTEP_KERNEL(int64_t row) {
        const float* const from = x + row * channels;
        T* const to = y + row * channels;
        Vec squares = zero();
        for_each_vec(channels, [&](int64_t i, auto lanes) {
          const Vec value = load(from + i, lanes);
          squares = fma(value, value, squares);
        });
        const float mean = sum_lanes(squares) / static_cast<float>(channels);
        const float inverse = 1.0F / __builtin_sqrtf(mean + eps);
        set_once(rstd, row, inverse);
        const Vec factor = broadcast(inverse);
        for_each_vec(channels, [&](int64_t i, auto lanes) {
          store(to + i, load(from + i, lanes) * factor * load(weight + i, lanes), lanes);
        });
      });
}

template <class T>
void layer_norm_forward_typed(int64_t rows, int64_t channels, float eps, const float* x,
                              const float* weight, const float* bias, T* y, float* stats) {
  for_each_row(
      rows, LOCKSTEP_KERNEL(int64_t row) {
        const auto count = static_cast<float>(channels);
        const float* const from = x + row * channels;
        T* const to = y + row * channels;
        Vec sums = zero();
        for_each_vec(channels, [&](int64_t i, auto lanes) { sums = sums + load(from + i, lanes); });
        const float mean = sum_lanes(sums) / count;
        const Vec minus_mean = broadcast(-mean);
        Vec squares = zero();
        for_each_vec(channels, [&](int64_t i, auto lanes) {
          const Vec distance = select(lanes, load(from + i, lanes) + minus_mean, zero());
          squares = fma(distance, distance, squares);
        });
        const float inverse = 1.0F / __builtin_sqrtf(sum_lanes(squares) / count + eps);
        set_once(stats, row, mean);
        set_once(stats, rows + row, inverse);
        const Vec factor = broadcast(inverse);
        for_each_vec(channels, [&](int64_t i, auto lanes) {
          const Vec normed = (load(from + i, lanes) + minus_mean) * factor;
          store(to + i, fma(normed, load(weight + i, lanes), load(bias + i, lanes)), lanes);
        });
      });
}

// The gradient of the weight where rows do not run in order: every column adds up its rows.
void rms_norm_weight_gradient(int64_t rows, int64_t channels, const float* x, const float* rstd,
                              const float* dy, float* d_weight) {
  add_up_columns(
      rows, channels, d_weight, LOCKSTEP_KERNEL(int64_t row, int64_t i, auto lanes, Vec sum) {
        const int64_t at = row * channels + i;
        return fma(load(dy + at, lanes), load(x + at, lanes) * broadcast(rstd[row]), sum);
      });
}

void layer_norm_weight_gradient(int64_t rows, int64_t channels, const float* x, const float* stats,
                                const float* dy, float* d_weight, float* d_bias) {
  add_up_columns(
      rows, channels, d_weight, LOCKSTEP_KERNEL(int64_t row, int64_t i, auto lanes, Vec sum) {
        const int64_t at = row * channels + i;
        const Vec distance = load(x + at, lanes) + broadcast(-stats[row]);
        return fma(load(dy + at, lanes), distance * broadcast(stats[rows + row]), sum);
      });
  add_up_columns(
      rows, channels, d_bias, LOCKSTEP_KERNEL(int64_t row, int64_t i, auto lanes, Vec sum) {
        return sum + load(dy + row * channels + i, lanes);
      });
}

template <class T>
void rms_norm_backward_typed(int64_t rows, int64_t channels, const float* x, const T* weight,
                             const float* rstd, const float* dy, const float* residual, float* dx,
                             float* d_weight) {
  const bool has_gradient = d_weight != nullptr;
  const bool adds_gradient = has_gradient && kRowsInOrder;
  if (adds_gradient) fill_with_zero(channels, d_weight);
  if (has_gradient && !adds_gradient) {  // before dx replaces dy
    rms_norm_weight_gradient(rows, channels, x, rstd, dy, d_weight);
  }
  for_each_row(
      rows, LOCKSTEP_KERNEL(int64_t row) {
        const float* const x_row = x + row * channels;
        const float* const dy_row = dy + row * channels;
        const float* const residual_row = residual == nullptr ? nullptr : residual + row * channels;
        float* const dx_row = dx + row * channels;
        Vec dots = zero();
        for_each_vec(channels, [&](int64_t i, auto lanes) {
          dots =
              fma(load(dy_row + i, lanes) * load(weight + i, lanes), load(x_row + i, lanes), dots);
        });
        const float r = rstd[row];
        const float projection = sum_lanes(dots) / static_cast<float>(channels) * r * r;
        const Vec factor = broadcast(r);
        const Vec minus_projection = broadcast(-projection);
        for_each_vec(channels, [&](int64_t i, auto lanes) {
          const Vec value = load(x_row + i, lanes);
          const Vec grad = load(dy_row + i, lanes);
          if (adds_gradient) {
            store(d_weight + i, fma(grad, value * factor, load(d_weight + i, lanes)), lanes);
          }
          const Vec before = residual_row == nullptr ? zero() : load(residual_row + i, lanes);
          const Vec inner = fma(value, minus_projection, grad * load(weight + i, lanes));
          store(dx_row + i, fma(inner, factor, before), lanes);
        });
      });
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
  const bool adds_gradient = has_gradient && kRowsInOrder;
  if (adds_gradient) {
    fill_with_zero(channels, d_weight);
    fill_with_zero(channels, d_bias);
  }
  if (has_gradient && !adds_gradient) {
    layer_norm_weight_gradient(rows, channels, x, stats, dy, d_weight, d_bias);
  }
  for_each_row(
      rows, LOCKSTEP_KERNEL(int64_t row) {
        const float* const x_row = x + row * channels;
        const float* const dy_row = dy + row * channels;
        const float* const residual_row = residual == nullptr ? nullptr : residual + row * channels;
        float* const dx_row = dx + row * channels;
        const Vec minus_mean = broadcast(-stats[row]);
        const Vec factor = broadcast(stats[rows + row]);
        Vec sums = zero();
        Vec dots = zero();
        for_each_vec(channels, [&](int64_t i, auto lanes) {
          const Vec grad = load(dy_row + i, lanes) * load(weight + i, lanes);
          sums = sums + grad;
          dots = fma(grad, (load(x_row + i, lanes) + minus_mean) * factor, dots);
        });
        const Vec minus_sum = broadcast(-sum_lanes(sums) / static_cast<float>(channels));
        const Vec minus_dot = broadcast(-sum_lanes(dots) / static_cast<float>(channels));
        for_each_vec(channels, [&](int64_t i, auto lanes) {
          const Vec normed = (load(x_row + i, lanes) + minus_mean) * factor;
          const Vec grad = load(dy_row + i, lanes);
          if (adds_gradient) {
            store(d_weight + i, fma(grad, normed, load(d_weight + i, lanes)), lanes);
            store(d_bias + i, load(d_bias + i, lanes) + grad, lanes);
          }
          const Vec before = residual_row == nullptr ? zero() : load(residual_row + i, lanes);
          const Vec inner = fma(normed, minus_dot, grad * load(weight + i, lanes) + minus_sum);
          store(dx_row + i, fma(inner, factor, before), lanes);
        });
      });
}

void softmax(int64_t rows, int64_t n, float* x) {
  for_each_row(
      rows, LOCKSTEP_KERNEL(int64_t row) { softmax_row(n, 1.0F, x + row * n); });
}

double cross_entropy(int64_t rows, int64_t vocab, const int32_t* labels, float scale,
                     float* logits) {
  return sum_of_rows(
      rows, LOCKSTEP_KERNEL(int64_t row)->double {
        return cross_entropy_row(vocab, labels[row], scale, logits + row * vocab);
      });
}

void sum_squares_chunks(int64_t n, const float* x, double* chunk_sums) {
  put_results_of_rows((n + kNormChunkElems - 1) / kNormChunkElems, chunk_sums,
                      LOCKSTEP_KERNEL(int64_t chunk)->double {
                        const int64_t begin = chunk * kNormChunkElems;
                        const int64_t count =
                            n - begin < kNormChunkElems ? n - begin : kNormChunkElems;
                        SquareSums sums;
                        int64_t i = 0;
                        for (; i + kLanes <= count; i += kLanes)
                          add_squares(sums, x + begin + i, kLanes);
                        if (i < count) add_squares(sums, x + begin + i, count - i);
                        return sum_lanes(sums);
                      });
}

}  // namespace lockstep::runtime::LOCKSTEP_ISA

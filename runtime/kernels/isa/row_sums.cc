// Kernels with a sum over a row or chunk: RMS norm, cross-entropy, sums of squares. A sum runs in
// sixteen lanes (element i in lane i mod 16), then over the lanes in sum_lanes' order.
#include "runtime/kernels/isa/column_sums.h"
#include "runtime/kernels/isa/half.h"
#include "runtime/kernels/isa/kernels.h"
#include "runtime/kernels/isa/vector_math.h"

namespace lockstep::runtime::LOCKSTEP_ISA {
namespace {

constexpr double kLn2 = 0.69314718055994530942;

struct RowSum {
  float top;  // the largest element
  float sum;  // of what softmax_row() took e^(x - top) for
};

LOCKSTEP_INLINE float top_of_row(int64_t n, const float* row) {
  Vec most = broadcast(row[0]);
  for_each_vec(n, [&](int64_t i, auto lanes) {
    most = max(select(lanes, load(row + i, lanes), most), most);
  });
  return max_lanes(most);
}

// Replaces the n elements of a row by `scale` times their softmax.
LOCKSTEP_INLINE RowSum softmax_row(int64_t n, float scale, float* row) {
  const float top = top_of_row(n, row);
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
  return kLn2 * log2(static_cast<double>(softmax.sum)) +
         (static_cast<double>(softmax.top) - static_cast<double>(label_logit));
}

// The loss of one row; `row` is replaced by its gradient, and `teacher` by what its probabilities
// are proportional to. The divergence is the teacher's mean of the difference of both logarithms.
LOCKSTEP_INLINE double distill_row(int64_t vocab, int32_t label, DistillFactors factors,
                                   float scale, float* teacher, float* row) {
  if (label < 0) {
    for_each_vec(vocab, [&](int64_t i, auto lanes) { store(row + i, zero(), lanes); });
    return 0;
  }
  const float label_logit = row[label];
  const float top = top_of_row(vocab, row);
  const Vec minus_top = broadcast(-top);
  const Vec minus_teacher_top = broadcast(-top_of_row(vocab, teacher));
  const Vec inverse = broadcast(1.0F / factors.temperature);
  Vec sums = zero();          // of e^logit
  Vec warm_sums = zero();     // of e^(logit / temperature)
  Vec teacher_sums = zero();  // the same of the teacher
  Vec dots = zero();          // of the teacher's, times the difference of the logits
  for_each_vec(vocab, [&](int64_t i, auto lanes) {
    const Vec logit = load(row + i, lanes) + minus_top;
    const Vec warm = logit * inverse;
    const Vec told = (load(teacher + i, lanes) + minus_teacher_top) * inverse;
    const Vec weight = exp(told);
    sums = sums + select(lanes, exp(logit), zero());
    warm_sums = warm_sums + select(lanes, exp(warm), zero());
    teacher_sums = teacher_sums + select(lanes, weight, zero());
    dots = dots + select(lanes, weight * (told - warm), zero());
    store(teacher + i, weight, lanes);
  });
  const float sum = sum_lanes(sums);
  const float warm_sum = sum_lanes(warm_sums);
  const float teacher_sum = sum_lanes(teacher_sums);
  const double dot = static_cast<double>(sum_lanes(dots));
  const float of_label = scale * (1.0F - factors.alpha);
  const float of_teacher = scale * factors.alpha * factors.temperature;
  const Vec own = broadcast(of_label / sum);
  const Vec warm_own = broadcast(of_teacher / warm_sum);
  const Vec minus_theirs = broadcast(-of_teacher / teacher_sum);
  for_each_vec(vocab, [&](int64_t i, auto lanes) {
    const Vec logit = load(row + i, lanes) + minus_top;
    const Vec difference =
        fma(load(teacher + i, lanes), minus_theirs, exp(logit * inverse) * warm_own);
    store(row + i, fma(exp(logit), own, difference), lanes);
  });
  subtract_once(row, label, of_label);
  const double cross_entropy = kLn2 * log2(static_cast<double>(sum)) +
                               (static_cast<double>(top) - static_cast<double>(label_logit));
  const double divergence =
      dot / static_cast<double>(teacher_sum) +
      kLn2 * (log2(static_cast<double>(warm_sum)) - log2(static_cast<double>(teacher_sum)));
  const double alpha = static_cast<double>(factors.alpha);
  const double temperature = static_cast<double>(factors.temperature);
  return (1 - alpha) * cross_entropy + alpha * temperature * temperature * divergence;
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

double distill(int64_t rows, int64_t vocab, const int32_t* labels, const DistillFactors& factors,
               float scale, float* teacher, float* logits) {
  const DistillFactors own = factors;  // what runs elsewhere keeps no reference
  return sum_of_rows(
      rows, LOCKSTEP_KERNEL(int64_t row)->double {
        return distill_row(vocab, labels[row], own, scale, teacher + row * vocab,
                           logits + row * vocab);
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

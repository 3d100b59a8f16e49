// Kernels that treat every element alone: rotary embedding, SwiGLU, conversions, additions.
#include "runtime/kernels/isa/half.h"
#include "runtime/kernels/isa/kernels.h"
#include "runtime/kernels/isa/vector_math.h"
#include "runtime/kernels/philox.h"

namespace lockstep::runtime::LOCKSTEP_ISA {
namespace {

// Turns every pair (x[i], x[i + D/2]) of every head by the angle of its position, times
// `direction`.
void rotate(const RotaryShape& shape, const float* table, float direction, float* rows) {
  const int64_t dim = shape.rotary_dim > 0 ? shape.rotary_dim : shape.head_dim;
  const int64_t half = dim / 2;
  for_each_row(
      shape.batch * shape.seq, LOCKSTEP_KERNEL(int64_t row) {
        const int64_t position = shape.positions ? shape.positions[row] : row % shape.seq;
        const float* const cosine = table + position * dim;
        const float* const sine = cosine + half;
        for (int64_t head = 0; head < shape.num_heads; ++head) {
          float* const first = rows + row * shape.row_elems + head * shape.head_dim;
          float* const second = first + half;
          for_each_vec(half, [&](int64_t i, auto lanes) {
            const Vec c = load(cosine + i, lanes);
            const Vec s = load(sine + i, lanes) * broadcast(direction);
            const Vec a = load(first + i, lanes);
            const Vec b = load(second + i, lanes);
            store(first + i, fma(a, c, zero() - b * s), lanes);
            store(second + i, fma(b, c, a * s), lanes);
          });
        }
      });
}

// What an activation is at x, and how it rises there.
struct Slope {
  Vec value;
  Vec rise;
};

struct Silu {
  LOCKSTEP_INLINE Vec value(Vec x) { return x * sigmoid(x); }
  LOCKSTEP_INLINE Slope slope(Vec x) {
    const Vec one = broadcast(1.0F);
    const Vec s = sigmoid(x);
    return {x * s, s * fma(x, one - s, one)};
  }
};

// x/2 (1 + tanh(u)) = x sigmoid(2u) with u = sqrt(2/pi) (x + 0.044715 x^3).
struct TanhGelu {
  static constexpr float kTwiceRoot = 1.5957691216F;  // 2 sqrt(2/pi)
  static constexpr float kCubic = 0.0713548162726F;   // 0.044715 times that
  LOCKSTEP_INLINE Vec share(Vec x) {
    return sigmoid(x * fma(x * x, broadcast(kCubic), broadcast(kTwiceRoot)));
  }
  LOCKSTEP_INLINE Vec value(Vec x) { return x * share(x); }
  LOCKSTEP_INLINE Slope slope(Vec x) {
    const Vec s = share(x);
    const Vec inner = x * fma(x * x, broadcast(3 * kCubic), broadcast(kTwiceRoot));
    return {x * s, s * fma(inner, broadcast(1.0F) - s, broadcast(1.0F))};
  }
};

// x Phi(x). With z = |x| / sqrt(2) and t = 1 / (1 + 0.3275911 z), 1 - erf(z) is a polynomial of t
// times e^(-z^2), within 1.5e-7. Source: Abramowitz and Stegun, 7.1.26.
struct ErfGelu {
  struct Parts {
    Vec share;    // Phi(x)
    Vec density;  // x times its slope
  };
  LOCKSTEP_INLINE Parts parts(Vec x) {
    const Vec one = broadcast(1.0F);
    const Vec bounded = max(broadcast(-1e3F), min(broadcast(1e3F), x));
    const Vec distance = max(bounded, zero() - bounded);
    const Vec bell = exp(distance * distance * broadcast(-0.5F));
    const Vec t = one / fma(distance, broadcast(0.231641888F), one);         // 0.3275911 / sqrt(2)
    Vec tail = fma(t, broadcast(0.5307027145F), broadcast(-0.7265760135F));  // halves of theirs
    tail = fma(tail, t, broadcast(0.7107068705F));
    tail = fma(tail, t, broadcast(-0.142248368F));
    tail = fma(tail, t, broadcast(0.127414796F)) * t * bell;
    // 1 above 0, -1 below: the tail is Phi(x) below 0 and 1 - Phi(x) above.
    const Vec sign = bounded / max(distance, broadcast(1e-30F));
    const Vec above = fma(sign, broadcast(0.5F), broadcast(0.5F));
    return {fma(zero() - sign, tail, above), bounded * bell * broadcast(0.3989422804F)};
  }
  LOCKSTEP_INLINE Vec value(Vec x) { return x * parts(x).share; }
  LOCKSTEP_INLINE Slope slope(Vec x) {
    const Parts at = parts(x);
    return {x * at.share, at.share + at.density};
  }
};

template <class Function, class T>
void gated_forward_typed(int64_t rows, int64_t ff, const T* gate_up, T* out) {
  for_each_row(
      rows, LOCKSTEP_KERNEL(int64_t row) {
        const T* const gate = gate_up + row * 2 * ff;
        for_each_vec(ff, [&](int64_t i, auto lanes) {
          const Vec g = load(gate + i, lanes);
          const Vec up = load(gate + ff + i, lanes);
          store(out + row * ff + i, Function::value(g) * up, lanes);
        });
      });
}

template <class Function, class T>
void gated_backward_typed(int64_t rows, int64_t ff, const T* gate_up, const float* d_out,
                          T* d_gate_up, T* act) {
  for_each_row(
      rows, LOCKSTEP_KERNEL(int64_t row) {
        const T* const gate = gate_up + row * 2 * ff;
        T* const d_gate = d_gate_up + row * 2 * ff;
        for_each_vec(ff, [&](int64_t i, auto lanes) {
          const Vec g = load(gate + i, lanes);
          const Vec up = load(gate + ff + i, lanes);
          const Vec dy = load(d_out + row * ff + i, lanes);
          const Slope at = Function::slope(g);
          store(act + row * ff + i, at.value * up, lanes);
          store(d_gate + i, dy * up * at.rise, lanes);
          store(d_gate + ff + i, dy * at.value, lanes);
        });
      });
}

template <class Function>
void gated_forward(int64_t rows, int64_t ff, ConstValues gate_up, Values out) {
  with_stored_type(out.dtype, [=]<class T>(Stored<T>) {
    gated_forward_typed<Function>(rows, ff, static_cast<const T*>(gate_up.data),
                                  static_cast<T*>(out.data));
  });
}

template <class Function>
void gated_backward(int64_t rows, int64_t ff, ConstValues gate_up, const float* d_out,
                    Values d_gate_up, Values act) {
  with_stored_type(gate_up.dtype, [=]<class T>(Stored<T>) {
    gated_backward_typed<Function>(rows, ff, static_cast<const T*>(gate_up.data), d_out,
                                   static_cast<T*>(d_gate_up.data), static_cast<T*>(act.data));
  });
}

template <class Function, class T>
void plain_forward_typed(int64_t n, const T* x, T* out) {
  for_every_vec(
      n, LOCKSTEP_KERNEL(int64_t i, auto lanes) {
        store(out + i, Function::value(load(x + i, lanes)), lanes);
      });
}

template <class Function>
void plain_forward(int64_t n, ConstValues x, Values out) {
  with_stored_type(out.dtype, [=]<class T>(Stored<T>) {
    plain_forward_typed<Function>(n, static_cast<const T*>(x.data), static_cast<T*>(out.data));
  });
}

template <class Function, class T>
void plain_backward_typed(int64_t n, const T* x, const float* d_out, T* d_x, T* act) {
  for_every_vec(
      n, LOCKSTEP_KERNEL(int64_t i, auto lanes) {
        const Slope at = Function::slope(load(x + i, lanes));
        store(act + i, at.value, lanes);
        store(d_x + i, load(d_out + i, lanes) * at.rise, lanes);
      });
}

template <class Function>
void plain_backward(int64_t n, ConstValues x, const float* d_out, Values d_x, Values act) {
  with_stored_type(x.dtype, [=]<class T>(Stored<T>) {
    plain_backward_typed<Function>(n, static_cast<const T*>(x.data), d_out,
                                   static_cast<T*>(d_x.data), static_cast<T*>(act.data));
  });
}

template <class T>
void widen_typed(int64_t n, const T* x, float* y) {
  for_every_vec(
      n, LOCKSTEP_KERNEL(int64_t i, auto lanes) { store(y + i, load(x + i, lanes), lanes); });
}

template <class T>
void narrow_range(int64_t begin, int64_t end, const float* x, T* y) {
  for_every_vec(
      end - begin, LOCKSTEP_KERNEL(int64_t i, auto lanes) {
        const Vec value = load(x + begin + i, lanes);
        sync_lanes();
        store(y + begin + i, value, lanes);
      });
}

// In place, and where all vectors run at once, what one writes another may have yet to read: so a
// launch writes over what the launches before it have read.
template <class T>
void narrow_typed(int64_t n, const float* x, T* y) {
  const bool by_ranges = !kRowsInOrder && sizeof(T) < sizeof(float) &&
                         static_cast<const void*>(x) == static_cast<const void*>(y);
  int64_t end = by_ranges ? kLanes : n;
  for (int64_t begin = 0; begin < n; begin = end, end *= 2) {
    narrow_range(begin, end < n ? end : n, x, y);
  }
}

}  // namespace

void rotary_forward(const RotaryShape& shape, const float* table, float* rows) {
  rotate(shape, table, 1.0F, rows);
}

void rotary_backward(const RotaryShape& shape, const float* table, float* d_rows) {
  rotate(shape, table, -1.0F, d_rows);
}

void swiglu_forward(int64_t rows, int64_t ff, ConstValues gate_up, Values out) {
  gated_forward<Silu>(rows, ff, gate_up, out);
}

void swiglu_backward(int64_t rows, int64_t ff, ConstValues gate_up, const float* d_out,
                     Values d_gate_up, Values act) {
  gated_backward<Silu>(rows, ff, gate_up, d_out, d_gate_up, act);
}

void geglu_forward(Gelu form, int64_t rows, int64_t ff, ConstValues gate_up, Values out) {
  if (form == Gelu::kErf) return gated_forward<ErfGelu>(rows, ff, gate_up, out);
  gated_forward<TanhGelu>(rows, ff, gate_up, out);
}

void geglu_backward(Gelu form, int64_t rows, int64_t ff, ConstValues gate_up, const float* d_out,
                    Values d_gate_up, Values act) {
  if (form == Gelu::kErf) return gated_backward<ErfGelu>(rows, ff, gate_up, d_out, d_gate_up, act);
  gated_backward<TanhGelu>(rows, ff, gate_up, d_out, d_gate_up, act);
}

void gelu_forward(Gelu form, int64_t n, ConstValues x, Values out) {
  if (form == Gelu::kErf) return plain_forward<ErfGelu>(n, x, out);
  plain_forward<TanhGelu>(n, x, out);
}

void gelu_backward(Gelu form, int64_t n, ConstValues x, const float* d_out, Values d_x,
                   Values act) {
  if (form == Gelu::kErf) return plain_backward<ErfGelu>(n, x, d_out, d_x, act);
  plain_backward<TanhGelu>(n, x, d_out, d_x, act);
}

void softcap_forward(int64_t n, float cap, float* x) {
  const float inverse = 1.0F / cap;
  for_every_vec(
      n, LOCKSTEP_KERNEL(int64_t i, auto lanes) {
        store(x + i, broadcast(cap) * tanh(load(x + i, lanes) * broadcast(inverse)), lanes);
      });
}

void softcap_backward(int64_t n, float cap, const float* y, float* d) {
  const float inverse = 1.0F / cap;
  for_every_vec(
      n, LOCKSTEP_KERNEL(int64_t i, auto lanes) {
        const Vec t = load(y + i, lanes) * broadcast(inverse);
        store(d + i, load(d + i, lanes) * fma(zero() - t, t, broadcast(1.0F)), lanes);
      });
}

void narrow(int64_t n, const float* x, Values y) {
  with_stored_type(y.dtype,
                   [=]<class T>(Stored<T>) { narrow_typed(n, x, static_cast<T*>(y.data)); });
}

void widen(int64_t n, ConstValues x, float* y) {
  with_stored_type(x.dtype,
                   [=]<class T>(Stored<T>) { widen_typed(n, static_cast<const T*>(x.data), y); });
}

void add_in_place(int64_t n, const float* x, float* y) {
  for_every_vec(
      n, LOCKSTEP_KERNEL(int64_t i, auto lanes) {
        store(y + i, load(y + i, lanes) + load(x + i, lanes), lanes);
      });
}

void add_scaled(int64_t n, float factor, const float* x, float* y) {
  for_every_vec(
      n, LOCKSTEP_KERNEL(int64_t i, auto lanes) {
        store(y + i, fma(load(x + i, lanes), broadcast(factor), load(y + i, lanes)), lanes);
      });
}

void scale(int64_t n, float factor, const float* x, float* y) {
  for_every_vec(
      n, LOCKSTEP_KERNEL(int64_t i, auto lanes) {
        store(y + i, load(x + i, lanes) * broadcast(factor), lanes);
      });
}

void shift(int64_t n, float distance, const float* x, float* y) {
  for_every_vec(
      n, LOCKSTEP_KERNEL(int64_t i, auto lanes) {
        store(y + i, load(x + i, lanes) + broadcast(distance), lanes);
      });
}

void dropout(const DropoutDraw& draw, int64_t n, float* x) {
  for_every_vec(
      n, LOCKSTEP_KERNEL(int64_t i, auto lanes) {
        float factors[kLanes];
        for (int64_t half = 0; half < 2; ++half) {
          const PhiloxWords words = philox({static_cast<uint32_t>(i / 8 + half), draw.counter[0],
                                            draw.counter[1], draw.counter[2]},
                                           draw.key);
          for (int64_t j = 0; j < 8; ++j) {
            const uint32_t bits = words[j / 2] >> (16 * (j % 2)) & 0xFFFFU;
            factors[8 * half + j] = bits < draw.dropped_below ? 0.0F : draw.kept;
          }
        }
        // The sum makes what is dropped +0.
        store(x + i, load(x + i, lanes) * load(factors, lanes) + zero(), lanes);
      });
}

}  // namespace lockstep::runtime::LOCKSTEP_ISA

// Kernels that treat every element alone: rotary embedding, SwiGLU, conversions, additions.
#include "runtime/kernels/isa/half.h"
#include "runtime/kernels/isa/kernels.h"
#include "runtime/kernels/isa/vector_math.h"

namespace lockstep::runtime::LOCKSTEP_ISA {
namespace {

// Turns every pair (x[i], x[i + D/2]) of every head by the angle of its position, times
// `direction`.
void rotate(const RotaryShape& shape, const float* table, float direction, float* rows) {
  const int64_t half = shape.head_dim / 2;
  for (int64_t row = 0; row < shape.batch * shape.seq; ++row) {
    const int64_t position = shape.positions ? shape.positions[row] : row % shape.seq;
    const float* const cosine = table + position * shape.head_dim;
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
  }
}

template <class T>
void swiglu_forward_typed(int64_t rows, int64_t ff, const T* gate_up, T* out) {
  for (int64_t row = 0; row < rows; ++row) {
    const T* const gate = gate_up + row * 2 * ff;
    for_each_vec(ff, [&](int64_t i, auto lanes) {
      const Vec g = load(gate + i, lanes);
      const Vec up = load(gate + ff + i, lanes);
      store(out + row * ff + i, g * sigmoid(g) * up, lanes);
    });
  }
}

template <class T>
void swiglu_backward_typed(int64_t rows, int64_t ff, const T* gate_up, const float* d_out,
                           T* d_gate_up, T* act) {
  const Vec one = broadcast(1.0F);
  for (int64_t row = 0; row < rows; ++row) {
    const T* const gate = gate_up + row * 2 * ff;
    T* const d_gate = d_gate_up + row * 2 * ff;
    for_each_vec(ff, [&](int64_t i, auto lanes) {
      const Vec g = load(gate + i, lanes);
      const Vec up = load(gate + ff + i, lanes);
      const Vec dy = load(d_out + row * ff + i, lanes);
      const Vec s = sigmoid(g);
      const Vec silu = g * s;
      const Vec d_silu = s * fma(g, one - s, one);
      store(act + row * ff + i, silu * up, lanes);
      store(d_gate + i, dy * up * d_silu, lanes);
      store(d_gate + ff + i, dy * silu, lanes);
    });
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
  with_stored_type(out.dtype, [=]<class T>(Stored<T>) {
    swiglu_forward_typed(rows, ff, static_cast<const T*>(gate_up.data), static_cast<T*>(out.data));
  });
}

void swiglu_backward(int64_t rows, int64_t ff, ConstValues gate_up, const float* d_out,
                     Values d_gate_up, Values act) {
  with_stored_type(gate_up.dtype, [=]<class T>(Stored<T>) {
    swiglu_backward_typed(rows, ff, static_cast<const T*>(gate_up.data), d_out,
                          static_cast<T*>(d_gate_up.data), static_cast<T*>(act.data));
  });
}

void narrow(int64_t n, const float* x, Values y) {
  with_stored_type(y.dtype, [=]<class T>(Stored<T>) {
    T* const to = static_cast<T*>(y.data);
    for_each_vec(n, [&](int64_t i, auto lanes) { store(to + i, load(x + i, lanes), lanes); });
  });
}

void widen(int64_t n, ConstValues x, float* y) {
  with_stored_type(x.dtype, [=]<class T>(Stored<T>) {
    const T* const from = static_cast<const T*>(x.data);
    for_each_vec(n, [&](int64_t i, auto lanes) { store(y + i, load(from + i, lanes), lanes); });
  });
}

void add_in_place(int64_t n, const float* x, float* y) {
  for_each_vec(n, [&](int64_t i, auto lanes) {
    store(y + i, load(y + i, lanes) + load(x + i, lanes), lanes);
  });
}

void embedding_backward(int64_t rows, int64_t channels, int64_t vocab, const int32_t* tokens,
                        const float* dy, float* d_table) {
  for_each_vec(vocab * channels, [&](int64_t i, auto lanes) { store(d_table + i, zero(), lanes); });
  for (int64_t row = 0; row < rows; ++row) {
    add_in_place(channels, dy + row * channels, d_table + tokens[row] * channels);
  }
}

}  // namespace lockstep::runtime::LOCKSTEP_ISA

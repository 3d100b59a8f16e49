// Single-pass kernels around the matrix products, with fp32 arithmetic. All are single-threaded,
// write every element of their outputs and give an element the same bits wherever it lies in the
// buffer and on AVX-512, AVX2 and plain builds (fixed 16-lane sums, explicit fma, no scalar tail of
// its own). What is `Values` or `ConstValues` may be stored in 16 bits: it is widened when read and
// rounded to the nearest (ties to even) when written; typed arguments of one call are of one type.
// Shapes: R rows (batch * time), C channels, F feed-forward size, V vocabulary.
#pragma once

#include <array>
#include <cstdint>

#include "runtime/kernels/typed_values.h"

namespace lockstep::runtime {

// y = x * rstd * weight per row; rstd = 1 / sqrt(mean(x^2) + eps).
//   x, y: [R, C]; weight: [C], of the type of y or fp32; rstd: [R] written for backward.
void rms_norm_forward(int64_t rows, int64_t channels, float eps, const float* x, ConstValues weight,
                      Values y, float* rstd);
// Gradient of rms_norm_forward, plus `residual` (null for none).
//   x, dy, residual, dx: [R, C]; dx may alias dy or residual. d_weight: [C]; written unless null.
void rms_norm_backward(int64_t rows, int64_t channels, const float* x, ConstValues weight,
                       const float* rstd, const float* dy, const float* residual, float* dx,
                       float* d_weight);

// y = (x - mean) * rstd * weight + bias per row; rstd = 1 / sqrt(var(x) + eps).
//   x, y: [R, C]; weight, bias: [C], fp32; stats: [2, R], means then rstds, written for backward.
void layer_norm_forward(int64_t rows, int64_t channels, float eps, const float* x,
                        const float* weight, const float* bias, Values y, float* stats);
// Gradient of layer_norm_forward, plus `residual` (null for none).
//   x, dy, residual, dx: [R, C]; dx may alias dy or residual. d_weight, d_bias: [C]; written, or
//   both null.
void layer_norm_backward(int64_t rows, int64_t channels, const float* x, const float* weight,
                         const float* stats, const float* dy, const float* residual, float* dx,
                         float* d_weight, float* d_bias);

// Rotary embedding of Hugging Face Llama ("rotate half") in place on the first `num_heads` heads of
// each row; backward turns the other way. table: [T, D] = cos (D/2 values) then sin (D/2 values)
// per position, of angles rounded to fp32 as Transformers rounds them.
struct RotaryShape {
  int64_t batch = 0, seq = 0;
  int64_t num_heads = 0;  // heads rotated, from the start of the row (query and key heads)
  int64_t head_dim = 0;
  int64_t row_elems = 0;  // distance of rows
  // Dimensions turned, from the start of a head: the D of the table. 0: head_dim.
  int64_t rotary_dim = 0;
  // [batch*seq], each in [0, T of the table): which angles a row gets. Null: its place in its
  // sequence. Borrowed.
  const int32_t* positions = nullptr;
};
// The frequencies of Llama's embedding, [D/2].
void rotary_frequencies(int64_t rotary_dim, double theta, float* frequencies);
// The table of any frequencies, its values times `factor`.
void rotary_table(int64_t seq, int64_t rotary_dim, const float* frequencies, float factor,
                  float* table);
void rotary_table(int64_t seq, int64_t head_dim, double theta, float* table);
void rotary_forward(const RotaryShape& shape, const float* table, float* rows);
void rotary_backward(const RotaryShape& shape, const float* table, float* d_rows);

// out = silu(gate) * up.  gate_up: [R, 2F] = gate then up per row; out: [R, F].
void swiglu_forward(int64_t rows, int64_t ff, ConstValues gate_up, Values out);
// d_gate_up: [R, 2F] written (may alias gate_up); d_out: [R, F].
// act: [R, F], the forward's output recomputed in the same pass, for the weight gradient.
void swiglu_backward(int64_t rows, int64_t ff, ConstValues gate_up, const float* d_out,
                     Values d_gate_up, Values act);

// x times the normal distribution's share below x: by its tanh approximation ("gelu_new",
// "gelu_pytorch_tanh"), or by the error function ("gelu").
enum class Gelu { kTanh, kErf };
// The same with gelu(gate) in place of silu(gate).
void geglu_forward(Gelu form, int64_t rows, int64_t ff, ConstValues gate_up, Values out);
void geglu_backward(Gelu form, int64_t rows, int64_t ff, ConstValues gate_up, const float* d_out,
                    Values d_gate_up, Values act);
// out = gelu(x) over n elements.
void gelu_forward(Gelu form, int64_t n, ConstValues x, Values out);
// d_x: written (may alias x); act: the forward's output recomputed in the same pass.
void gelu_backward(Gelu form, int64_t n, ConstValues x, const float* d_out, Values d_x, Values act);

// x = cap * tanh(x / cap) over n elements, in place.
void softcap_forward(int64_t n, float cap, float* x);
// Gradient of softcap_forward: d *= 1 - (y / cap)^2.
//   y: what forward made; d: [n], in place.
void softcap_backward(int64_t n, float cap, const float* y, float* d);

// Token rows of `table` [V, C] to y [R, C]; and `factor` times the rows of dy added to those of
// d_table [V, C], in order.
void embedding_forward(int64_t rows, int64_t channels, const int32_t* tokens, ConstValues table,
                       float* y);
void embedding_backward(int64_t rows, int64_t channels, const int32_t* tokens, float factor,
                        const float* dy, float* d_table);

// The softmax of each row, in place; x: [rows, n].
void softmax(int64_t rows, int64_t n, float* x);

// Sum (not mean) of the cross-entropy over rows whose label is not negative; logits [R, V] are
// replaced by their gradient times `scale`. Rows with a negative label get zero gradient.
double cross_entropy(int64_t rows, int64_t vocab, const int32_t* labels, float scale,
                     float* logits);

// Sum over rows whose label is not negative of (1 - alpha) times their cross-entropy and
// alpha temperature^2 times the Kullback-Leibler divergence of the teacher's probabilities from the
// model's, both with logits over `temperature`. logits [R, V] are replaced by their gradient times
// `scale`, zero in rows with a negative label; teacher: [R, V], overwritten.
struct DistillFactors {
  float alpha = 0;
  float temperature = 1;
};
double distill(int64_t rows, int64_t vocab, const int32_t* labels, const DistillFactors& factors,
               float scale, float* teacher, float* logits);

// Rounds n elements to the type of `y`, which may start where x does. An fp16 beyond 65504 becomes
// infinite; not-a-number stays so.
void narrow(int64_t n, const float* x, Values y);
// The exact value of n elements.
void widen(int64_t n, ConstValues x, float* y);

// y += x over n elements.
void add_in_place(int64_t n, const float* x, float* y);
// y += factor * x, and y = factor * x (which may be y), over n elements.
void add_scaled(int64_t n, float factor, const float* x, float* y);
void scale(int64_t n, float factor, const float* x, float* y);
// y = x + distance (y may be x), over n elements.
void shift(int64_t n, float distance, const float* x, float* y);

// y += x in every row.  x: [n]; y: [rows, n].
void add_to_rows(int64_t rows, int64_t n, const float* x, float* y);
// Sums of columns, row by row; on a GPU by parts of 64 rows.  x: [rows, n]; sums: [n], written.
void sum_columns(int64_t rows, int64_t n, ConstValues x, float* sums);
// Copies `width` columns of each row; strides are distances of rows.
void copy_columns(int64_t rows, int64_t width, const float* from, int64_t from_stride, float* to,
                  int64_t to_stride);

// Multiplies elements by 0 or by `kept`: element i by 0 if 16 bits of Philox's words for the
// counter (i / 8, counter) are below dropped_below, the low half of word j for i % 8 = 2 j and the
// high one for 2 j + 1.  x: [n], in place.
struct DropoutDraw {
  uint64_t key = 0;
  std::array<uint32_t, 3> counter{};
  uint32_t dropped_below = 0;  // of 2^16
  float kept = 1;
};
void dropout(const DropoutDraw& draw, int64_t n, float* x);

// One step of Adam or AdamW, in PyTorch's arithmetic order (source: torch.optim).
// Doubles, because 1 - beta2 taken in fp32 is off by 1e-5; each derived factor is rounded once.
struct AdamStep {
  double lr = 0, beta1 = 0, beta2 = 0, eps = 0, weight_decay = 0;
  double bias_correction1 = 1, bias_correction2 = 1;  // 1 - beta^t
  double gradient_scale = 1;                          // clip factor
};
// AdamW shrinks the weight by lr * weight_decay; Adam adds weight_decay * weight to the gradient.
// weight, m, v: [n], updated in place; gradient: [n].
void adamw(const AdamStep& step, int64_t n, const float* gradient, float* weight, float* m,
           float* v);
void adam(const AdamStep& step, int64_t n, const float* gradient, float* weight, float* m,
          float* v);

// One step of SGD with coupled decay, in PyTorch's arithmetic order (source: torch.optim.SGD).
struct SgdStep {
  double lr = 0, momentum = 0, weight_decay = 0;
  bool nesterov = false;
  double gradient_scale = 1;  // clip factor
};
// weight, buffer: [n], updated in place; gradient: [n]. buffer is null without momentum.
void sgd(const SgdStep& step, int64_t n, const float* gradient, float* weight, float* buffer);

// Sums of squares in fp64 of consecutive chunks of kNormChunkElems elements (the last may be
// short).
inline constexpr int64_t kNormChunkElems = 1024;
void sum_squares_chunks(int64_t n, const float* x, double* chunk_sums);

// The kernels in use: "cuda", "avx512", "avx2" or "plain"; of a processor the best that it has,
// or the one that the environment variable LOCKSTEP_ISA names; decided at the first call of a
// kernel. Throws std::runtime_error (as every kernel does) if LOCKSTEP_ISA names one that is not
// there.
const char* kernel_isa();

}  // namespace lockstep::runtime

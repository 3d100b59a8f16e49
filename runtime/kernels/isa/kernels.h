// What one instruction set's build of this folder offers to the dispatch, as declarations and as a
// table.
#pragma once

#include "runtime/kernels/attention.h"
#include "runtime/kernels/elementwise.h"
#include "runtime/kernels/kernel_table.h"

// Declares in `isa` the kernels of elementwise.h and attention.h under the same names.
#define LOCKSTEP_DECLARE_KERNELS(isa)                                                              \
  namespace lockstep::runtime::isa {                                                               \
  void rms_norm_forward(int64_t rows, int64_t channels, float eps, const float* x,                 \
                        ConstValues weight, Values y, float* rstd);                                \
  void rms_norm_backward(int64_t rows, int64_t channels, const float* x, ConstValues weight,       \
                         const float* rstd, const float* dy, const float* residual, float* dx,     \
                         float* d_weight);                                                         \
  void layer_norm_forward(int64_t rows, int64_t channels, float eps, const float* x,               \
                          const float* weight, const float* bias, Values y, float* stats);         \
  void layer_norm_backward(int64_t rows, int64_t channels, const float* x, const float* weight,    \
                           const float* stats, const float* dy, const float* residual, float* dx,  \
                           float* d_weight, float* d_bias);                                        \
  void geglu_forward(Gelu form, int64_t rows, int64_t ff, ConstValues gate_up, Values out);        \
  void geglu_backward(Gelu form, int64_t rows, int64_t ff, ConstValues gate_up,                    \
                      const float* d_out, Values d_gate_up, Values act);                           \
  void gelu_forward(Gelu form, int64_t n, ConstValues x, Values out);                              \
  void gelu_backward(Gelu form, int64_t n, ConstValues x, const float* d_out, Values d_x,          \
                     Values act);                                                                  \
  void softcap_forward(int64_t n, float cap, float* x);                                            \
  void softcap_backward(int64_t n, float cap, const float* y, float* d);                           \
  void add_scaled(int64_t n, float factor, const float* x, float* y);                              \
  void shift(int64_t n, float distance, const float* x, float* y);                                 \
  void add_to_rows(int64_t rows, int64_t n, const float* x, float* y);                             \
  void sum_columns(int64_t rows, int64_t n, ConstValues x, float* sums);                           \
  void copy_columns(int64_t rows, int64_t width, const float* from, int64_t from_stride,           \
                    float* to, int64_t to_stride);                                                 \
  void scale(int64_t n, float factor, const float* x, float* y);                                   \
  void rotary_forward(const RotaryShape& shape, const float* table, float* rows);                  \
  void rotary_backward(const RotaryShape& shape, const float* table, float* d_rows);               \
  void swiglu_forward(int64_t rows, int64_t ff, ConstValues gate_up, Values out);                  \
  void swiglu_backward(int64_t rows, int64_t ff, ConstValues gate_up, const float* d_out,          \
                       Values d_gate_up, Values act);                                              \
  void embedding_forward(int64_t rows, int64_t channels, const int32_t* tokens, ConstValues table, \
                         float* y);                                                                \
  void embedding_backward(int64_t rows, int64_t channels, const int32_t* tokens, float factor,     \
                          const float* dy, float* d_table);                                        \
  void softmax(int64_t rows, int64_t n, float* x);                                                 \
  double cross_entropy(int64_t rows, int64_t vocab, const int32_t* labels, float scale,            \
                       float* logits);                                                             \
  double distill(int64_t rows, int64_t vocab, const int32_t* labels,                               \
                 const DistillFactors& factors, float scale, float* teacher, float* logits);       \
  void narrow(int64_t n, const float* x, Values y);                                                \
  void widen(int64_t n, ConstValues x, float* y);                                                  \
  void add_in_place(int64_t n, const float* x, float* y);                                          \
  void dropout(const DropoutDraw& draw, int64_t n, float* x);                                      \
  void adamw(const AdamStep& step, int64_t n, const float* gradient, float* weight, float* m,      \
             float* v);                                                                            \
  void adam(const AdamStep& step, int64_t n, const float* gradient, float* weight, float* m,       \
            float* v);                                                                             \
  void sgd(const SgdStep& step, int64_t n, const float* gradient, float* weight, float* buffer);   \
  void sum_squares_chunks(int64_t n, const float* x, double* chunk_sums);                          \
  int64_t attention_scratch_elems(const AttentionShape& shape, DType dtype);                       \
  void attention_forward(const AttentionShape& shape, ConstValues qkv, Values out,                 \
                         float* log_sum_exp, float* scratch);                                      \
  void attention_extend(const AttentionShape& shape, const float* qkv,                             \
                        const AttentionCache& cache, float* out, float* scratch);                  \
  void attention_backward(const AttentionShape& shape, ConstValues qkv, ConstValues out,           \
                          const float* log_sum_exp, const float* d_out, float* d_qkv,              \
                          float* scratch);                                                         \
  }  // namespace lockstep::runtime::isa

// Those of `set`, declared before.
#define LOCKSTEP_KERNEL_TABLE(set)                                                                \
  KernelTable {                                                                                   \
    .isa = #set, .rms_norm_forward = &set::rms_norm_forward,                                      \
    .rms_norm_backward = &set::rms_norm_backward, .layer_norm_forward = &set::layer_norm_forward, \
    .layer_norm_backward = &set::layer_norm_backward, .rotary_forward = &set::rotary_forward,     \
    .rotary_backward = &set::rotary_backward, .swiglu_forward = &set::swiglu_forward,             \
    .swiglu_backward = &set::swiglu_backward, .geglu_forward = &set::geglu_forward,               \
    .geglu_backward = &set::geglu_backward, .gelu_forward = &set::gelu_forward,                   \
    .gelu_backward = &set::gelu_backward, .softcap_forward = &set::softcap_forward,               \
    .softcap_backward = &set::softcap_backward, .embedding_forward = &set::embedding_forward,     \
    .embedding_backward = &set::embedding_backward, .softmax = &set::softmax,                     \
    .cross_entropy = &set::cross_entropy, .distill = &set::distill, .narrow = &set::narrow,       \
    .widen = &set::widen, .add_in_place = &set::add_in_place, .add_scaled = &set::add_scaled,     \
    .scale = &set::scale, .shift = &set::shift, .add_to_rows = &set::add_to_rows,                 \
    .sum_columns = &set::sum_columns, .copy_columns = &set::copy_columns,                         \
    .dropout = &set::dropout, .adamw = &set::adamw, .adam = &set::adam, .sgd = &set::sgd,         \
    .sum_squares_chunks = &set::sum_squares_chunks,                                               \
    .attention_scratch_elems = &set::attention_scratch_elems,                                     \
    .attention_forward = &set::attention_forward, .attention_backward = &set::attention_backward  \
  }

#ifdef LOCKSTEP_ISA
LOCKSTEP_DECLARE_KERNELS(LOCKSTEP_ISA)
#endif

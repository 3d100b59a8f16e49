// What one instruction set's build of this folder offers to the dispatch.
#pragma once

#include "runtime/kernels/attention.h"
#include "runtime/kernels/elementwise.h"

// Declares in `isa` the kernels of elementwise.h and attention.h under the same names.
#define LOCKSTEP_DECLARE_KERNELS(isa)                                                             \
  namespace lockstep::runtime::isa {                                                              \
  void rms_norm_forward(int64_t rows, int64_t channels, float eps, const float* x,                \
                        ConstValues weight, Values y, float* rstd);                               \
  void rms_norm_backward(int64_t rows, int64_t channels, const float* x, ConstValues weight,      \
                         const float* rstd, const float* dy, const float* residual, float* dx,    \
                         float* d_weight);                                                        \
  void layer_norm_forward(int64_t rows, int64_t channels, float eps, const float* x,              \
                          const float* weight, const float* bias, Values y, float* stats);        \
  void layer_norm_backward(int64_t rows, int64_t channels, const float* x, const float* weight,   \
                           const float* stats, const float* dy, const float* residual, float* dx, \
                           float* d_weight, float* d_bias);                                       \
  void geglu_forward(Gelu form, int64_t rows, int64_t ff, ConstValues gate_up, Values out);       \
  void geglu_backward(Gelu form, int64_t rows, int64_t ff, ConstValues gate_up,                   \
                      const float* d_out, Values d_gate_up, Values act);                          \
  void gelu_forward(Gelu form, int64_t n, ConstValues x, Values out);                             \
  void gelu_backward(Gelu form, int64_t n, ConstValues x, const float* d_out, Values d_x,         \
                     Values act);                                                                 \
  void softcap_forward(int64_t n, float cap, float* x);                                           \
  void softcap_backward(int64_t n, float cap, const float* y, float* d);                          \
  void add_scaled(int64_t n, float factor, const float* x, float* y);                             \
  void scale(int64_t n, float factor, const float* x, float* y);                                  \
  void rotary_forward(const RotaryShape& shape, const float* table, float* rows);                 \
  void rotary_backward(const RotaryShape& shape, const float* table, float* d_rows);              \
  void swiglu_forward(int64_t rows, int64_t ff, ConstValues gate_up, Values out);                 \
  void swiglu_backward(int64_t rows, int64_t ff, ConstValues gate_up, const float* d_out,         \
                       Values d_gate_up, Values act);                                             \
  void embedding_backward(int64_t rows, int64_t channels, int64_t vocab, const int32_t* tokens,   \
                          const float* dy, float* d_table);                                       \
  void softmax(int64_t rows, int64_t n, float* x);                                                \
  double cross_entropy(int64_t rows, int64_t vocab, const int32_t* labels, float scale,           \
                       float* logits);                                                            \
  void narrow(int64_t n, const float* x, Values y);                                               \
  void widen(int64_t n, ConstValues x, float* y);                                                 \
  void add_in_place(int64_t n, const float* x, float* y);                                         \
  void adamw(const AdamStep& step, int64_t n, const float* gradient, float* weight, float* m,     \
             float* v);                                                                           \
  void adam(const AdamStep& step, int64_t n, const float* gradient, float* weight, float* m,      \
            float* v);                                                                            \
  void sgd(const SgdStep& step, int64_t n, const float* gradient, float* weight, float* buffer);  \
  void sum_squares_chunks(int64_t n, const float* x, double* chunk_sums);                         \
  void attention_forward(const AttentionShape& shape, ConstValues qkv, Values out,                \
                         float* log_sum_exp, float* scratch);                                     \
  void attention_backward(const AttentionShape& shape, ConstValues qkv, ConstValues out,          \
                          const float* log_sum_exp, const float* d_out, float* d_qkv,             \
                          float* scratch);                                                        \
  }  // namespace lockstep::runtime::isa

#ifdef LOCKSTEP_ISA
LOCKSTEP_DECLARE_KERNELS(LOCKSTEP_ISA)
#endif

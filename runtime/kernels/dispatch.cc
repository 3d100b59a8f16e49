// Chooses the instruction set, and forwards the public kernels to it.
#include <cstdlib>
#include <stdexcept>
#include <string>

#include "runtime/kernels/isa/kernels.h"
#include "runtime/kernels/kernel_table.h"

LOCKSTEP_DECLARE_KERNELS(plain)
#if defined(__x86_64__)
LOCKSTEP_DECLARE_KERNELS(avx2)
LOCKSTEP_DECLARE_KERNELS(avx512)
#endif

#define LOCKSTEP_KERNEL_TABLE(set)                                                               \
  KernelTable {                                                                                  \
    .isa = #set, .rms_norm_forward = &set::rms_norm_forward,                                     \
    .rms_norm_backward = &set::rms_norm_backward, .rotary_forward = &set::rotary_forward,        \
    .rotary_backward = &set::rotary_backward, .swiglu_forward = &set::swiglu_forward,            \
    .swiglu_backward = &set::swiglu_backward, .embedding_backward = &set::embedding_backward,    \
    .cross_entropy = &set::cross_entropy, .add_in_place = &set::add_in_place,                    \
    .adamw = &set::adamw, .sum_squares_chunks = &set::sum_squares_chunks,                        \
    .attention_forward = &set::attention_forward, .attention_backward = &set::attention_backward \
  }

namespace lockstep::runtime {
namespace {

KernelTable choose_kernels() {
  const std::vector<KernelTable> supported = supported_kernels();
  const char* const wanted = std::getenv("LOCKSTEP_ISA");
  if (wanted == nullptr || *wanted == '\0') return supported.front();
  std::string names;
  for (const KernelTable& table : supported) {
    if (std::string(table.isa) == wanted) return table;
    names += std::string(names.empty() ? "" : ", ") + table.isa;
  }
  throw std::runtime_error("LOCKSTEP_ISA is '" + std::string(wanted) +
                           "', but this processor runs only: " + names);
}

}  // namespace

std::vector<KernelTable> supported_kernels() {
  std::vector<KernelTable> tables;
#if defined(__x86_64__)
  __builtin_cpu_init();
  const bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  const bool avx512 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") &&
                      __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq");
  if (avx2 && avx512) tables.push_back(LOCKSTEP_KERNEL_TABLE(avx512));
  if (avx2) tables.push_back(LOCKSTEP_KERNEL_TABLE(avx2));
#endif
  tables.push_back(LOCKSTEP_KERNEL_TABLE(plain));
  return tables;
}

const KernelTable& chosen_kernels() {
  static const KernelTable kChosen = choose_kernels();
  return kChosen;
}

const char* kernel_isa() {
  return chosen_kernels().isa;
}

void rms_norm_forward(int64_t rows, int64_t channels, float eps, const float* x,
                      const float* weight, float* y, float* rstd) {
  chosen_kernels().rms_norm_forward(rows, channels, eps, x, weight, y, rstd);
}

void rms_norm_backward(int64_t rows, int64_t channels, const float* x, const float* weight,
                       const float* rstd, const float* dy, const float* residual, float* dx,
                       float* d_weight) {
  chosen_kernels().rms_norm_backward(rows, channels, x, weight, rstd, dy, residual, dx, d_weight);
}

void rotary_forward(const RotaryShape& shape, const float* table, float* rows) {
  chosen_kernels().rotary_forward(shape, table, rows);
}

void rotary_backward(const RotaryShape& shape, const float* table, float* d_rows) {
  chosen_kernels().rotary_backward(shape, table, d_rows);
}

void swiglu_forward(int64_t rows, int64_t ff, const float* gate_up, float* out) {
  chosen_kernels().swiglu_forward(rows, ff, gate_up, out);
}

void swiglu_backward(int64_t rows, int64_t ff, const float* gate_up, const float* d_out,
                     float* d_gate_up, float* act) {
  chosen_kernels().swiglu_backward(rows, ff, gate_up, d_out, d_gate_up, act);
}

void embedding_backward(int64_t rows, int64_t channels, int64_t vocab, const int32_t* tokens,
                        const float* dy, float* d_table) {
  chosen_kernels().embedding_backward(rows, channels, vocab, tokens, dy, d_table);
}

double cross_entropy(int64_t rows, int64_t vocab, const int32_t* labels, float scale,
                     float* logits) {
  return chosen_kernels().cross_entropy(rows, vocab, labels, scale, logits);
}

void add_in_place(int64_t n, const float* x, float* y) {
  chosen_kernels().add_in_place(n, x, y);
}

void adamw(const AdamWStep& step, int64_t n, const float* gradient, float* weight, float* m,
           float* v) {
  chosen_kernels().adamw(step, n, gradient, weight, m, v);
}

void sum_squares_chunks(int64_t n, const float* x, double* chunk_sums) {
  chosen_kernels().sum_squares_chunks(n, x, chunk_sums);
}

void attention_forward(const AttentionShape& shape, const float* qkv, float* out,
                       float* log_sum_exp, float* scratch) {
  chosen_kernels().attention_forward(shape, qkv, out, log_sum_exp, scratch);
}

void attention_backward(const AttentionShape& shape, const float* qkv, const float* out,
                        const float* log_sum_exp, const float* d_out, float* d_qkv,
                        float* scratch) {
  chosen_kernels().attention_backward(shape, qkv, out, log_sum_exp, d_out, d_qkv, scratch);
}

}  // namespace lockstep::runtime

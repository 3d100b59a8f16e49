// Chooses the instruction set, and forwards the public kernels to it.
#include <cstdlib>
#include <stdexcept>
#include <string>

#if defined(__x86_64__)
#include <cpuid.h>
#endif

#include "runtime/kernels/isa/kernels.h"
#include "runtime/kernels/kernel_table.h"

LOCKSTEP_DECLARE_KERNELS(plain)
#if defined(__x86_64__)
LOCKSTEP_DECLARE_KERNELS(avx2)
LOCKSTEP_DECLARE_KERNELS(avx512)
#endif

#define LOCKSTEP_KERNEL_TABLE(set)                                                                \
  KernelTable {                                                                                   \
    .isa = #set, .rms_norm_forward = &set::rms_norm_forward,                                      \
    .rms_norm_backward = &set::rms_norm_backward, .layer_norm_forward = &set::layer_norm_forward, \
    .layer_norm_backward = &set::layer_norm_backward, .rotary_forward = &set::rotary_forward,     \
    .rotary_backward = &set::rotary_backward, .swiglu_forward = &set::swiglu_forward,             \
    .swiglu_backward = &set::swiglu_backward, .geglu_forward = &set::geglu_forward,               \
    .geglu_backward = &set::geglu_backward, .gelu_forward = &set::gelu_forward,                   \
    .gelu_backward = &set::gelu_backward, .softcap_forward = &set::softcap_forward,               \
    .softcap_backward = &set::softcap_backward, .embedding_backward = &set::embedding_backward,   \
    .softmax = &set::softmax, .cross_entropy = &set::cross_entropy, .narrow = &set::narrow,       \
    .widen = &set::widen, .add_in_place = &set::add_in_place, .add_scaled = &set::add_scaled,     \
    .scale = &set::scale, .adamw = &set::adamw, .adam = &set::adam, .sgd = &set::sgd,             \
    .sum_squares_chunks = &set::sum_squares_chunks, .attention_forward = &set::attention_forward, \
    .attention_backward = &set::attention_backward                                                \
  }

namespace lockstep::runtime {
namespace {

#if defined(__x86_64__)
// Conversions of fp16. Not asked by __builtin_cpu_supports, which clang 14 refuses for it.
bool has_f16c() {
  unsigned int eax = 0, ebx = 0, ecx = 0, edx = 0;
  return __get_cpuid(1, &eax, &ebx, &ecx, &edx) != 0 && (ecx & bit_F16C) != 0;
}
#endif

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
  const bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && has_f16c();
  const bool avx512 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") &&
                      __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq");
  if (avx2 && avx512) tables.push_back(LOCKSTEP_KERNEL_TABLE(avx512));
  if (avx2) tables.push_back(LOCKSTEP_KERNEL_TABLE(avx2));
#endif
  tables.push_back(LOCKSTEP_KERNEL_TABLE(plain));
  return tables;
}

const KernelTable& chosen_kernels() {
  static const KernelTable chosen = choose_kernels();
  return chosen;
}

const char* kernel_isa() {
  return chosen_kernels().isa;
}

void rms_norm_forward(int64_t rows, int64_t channels, float eps, const float* x, ConstValues weight,
                      Values y, float* rstd) {
  chosen_kernels().rms_norm_forward(rows, channels, eps, x, weight, y, rstd);
}

void rms_norm_backward(int64_t rows, int64_t channels, const float* x, ConstValues weight,
                       const float* rstd, const float* dy, const float* residual, float* dx,
                       float* d_weight) {
  chosen_kernels().rms_norm_backward(rows, channels, x, weight, rstd, dy, residual, dx, d_weight);
}

void layer_norm_forward(int64_t rows, int64_t channels, float eps, const float* x,
                        const float* weight, const float* bias, Values y, float* stats) {
  chosen_kernels().layer_norm_forward(rows, channels, eps, x, weight, bias, y, stats);
}

void layer_norm_backward(int64_t rows, int64_t channels, const float* x, const float* weight,
                         const float* stats, const float* dy, const float* residual, float* dx,
                         float* d_weight, float* d_bias) {
  chosen_kernels().layer_norm_backward(rows, channels, x, weight, stats, dy, residual, dx, d_weight,
                                       d_bias);
}

void geglu_forward(Gelu form, int64_t rows, int64_t ff, ConstValues gate_up, Values out) {
  chosen_kernels().geglu_forward(form, rows, ff, gate_up, out);
}

void geglu_backward(Gelu form, int64_t rows, int64_t ff, ConstValues gate_up, const float* d_out,
                    Values d_gate_up, Values act) {
  chosen_kernels().geglu_backward(form, rows, ff, gate_up, d_out, d_gate_up, act);
}

void gelu_forward(Gelu form, int64_t n, ConstValues x, Values out) {
  chosen_kernels().gelu_forward(form, n, x, out);
}

void gelu_backward(Gelu form, int64_t n, ConstValues x, const float* d_out, Values d_x,
                   Values act) {
  chosen_kernels().gelu_backward(form, n, x, d_out, d_x, act);
}

void softcap_forward(int64_t n, float cap, float* x) {
  chosen_kernels().softcap_forward(n, cap, x);
}

void softcap_backward(int64_t n, float cap, const float* y, float* d) {
  chosen_kernels().softcap_backward(n, cap, y, d);
}

void add_scaled(int64_t n, float factor, const float* x, float* y) {
  chosen_kernels().add_scaled(n, factor, x, y);
}

void scale(int64_t n, float factor, const float* x, float* y) {
  chosen_kernels().scale(n, factor, x, y);
}

void rotary_forward(const RotaryShape& shape, const float* table, float* rows) {
  chosen_kernels().rotary_forward(shape, table, rows);
}

void rotary_backward(const RotaryShape& shape, const float* table, float* d_rows) {
  chosen_kernels().rotary_backward(shape, table, d_rows);
}

void swiglu_forward(int64_t rows, int64_t ff, ConstValues gate_up, Values out) {
  chosen_kernels().swiglu_forward(rows, ff, gate_up, out);
}

void swiglu_backward(int64_t rows, int64_t ff, ConstValues gate_up, const float* d_out,
                     Values d_gate_up, Values act) {
  chosen_kernels().swiglu_backward(rows, ff, gate_up, d_out, d_gate_up, act);
}

void embedding_backward(int64_t rows, int64_t channels, int64_t vocab, const int32_t* tokens,
                        const float* dy, float* d_table) {
  chosen_kernels().embedding_backward(rows, channels, vocab, tokens, dy, d_table);
}

void softmax(int64_t rows, int64_t n, float* x) {
  chosen_kernels().softmax(rows, n, x);
}

double cross_entropy(int64_t rows, int64_t vocab, const int32_t* labels, float scale,
                     float* logits) {
  return chosen_kernels().cross_entropy(rows, vocab, labels, scale, logits);
}

void narrow(int64_t n, const float* x, Values y) {
  chosen_kernels().narrow(n, x, y);
}

void widen(int64_t n, ConstValues x, float* y) {
  chosen_kernels().widen(n, x, y);
}

void add_in_place(int64_t n, const float* x, float* y) {
  chosen_kernels().add_in_place(n, x, y);
}

void adamw(const AdamStep& step, int64_t n, const float* gradient, float* weight, float* m,
           float* v) {
  chosen_kernels().adamw(step, n, gradient, weight, m, v);
}

void adam(const AdamStep& step, int64_t n, const float* gradient, float* weight, float* m,
          float* v) {
  chosen_kernels().adam(step, n, gradient, weight, m, v);
}

void sgd(const SgdStep& step, int64_t n, const float* gradient, float* weight, float* buffer) {
  chosen_kernels().sgd(step, n, gradient, weight, buffer);
}

void sum_squares_chunks(int64_t n, const float* x, double* chunk_sums) {
  chosen_kernels().sum_squares_chunks(n, x, chunk_sums);
}

void attention_forward(const AttentionShape& shape, ConstValues qkv, Values out, float* log_sum_exp,
                       float* scratch) {
  chosen_kernels().attention_forward(shape, qkv, out, log_sum_exp, scratch);
}

void attention_backward(const AttentionShape& shape, ConstValues qkv, ConstValues out,
                        const float* log_sum_exp, const float* d_out, float* d_qkv,
                        float* scratch) {
  chosen_kernels().attention_backward(shape, qkv, out, log_sum_exp, d_out, d_qkv, scratch);
}

}  // namespace lockstep::runtime

// Chooses the instruction set, and forwards the public kernels to it.
#include <cstdlib>
#include <stdexcept>
#include <string>

#if defined(__x86_64__)
#include <cpuid.h>
#endif

#include "runtime/kernels/attention_layout.h"
#include "runtime/kernels/device.h"
#include "runtime/kernels/isa/kernels.h"
#include "runtime/kernels/kernel_table.h"

LOCKSTEP_DECLARE_KERNELS(plain)
#if defined(__x86_64__)
LOCKSTEP_DECLARE_KERNELS(avx2)
LOCKSTEP_DECLARE_KERNELS(avx512)
#endif

namespace lockstep::runtime {
namespace {

#if defined(__x86_64__)
// Conversions of fp16. Not asked by __builtin_cpu_supports, which clang 14 refuses for it.
bool has_f16c() {
  unsigned int eax = 0, ebx = 0, ecx = 0, edx = 0;
  return __get_cpuid(1, &eax, &ebx, &ecx, &edx) != 0 && (ecx & bit_F16C) != 0;
}
#endif

// A processor's kernels: those that devices have, too, and what makes text.
#define LOCKSTEP_PROCESSOR_TABLE(set) \
  with_extend(LOCKSTEP_KERNEL_TABLE(set), &set::attention_extend)

KernelTable with_extend(KernelTable table, decltype(&runtime::attention_extend) extend) {
  table.attention_extend = extend;
  return table;
}

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
  if (avx2 && avx512) tables.push_back(LOCKSTEP_PROCESSOR_TABLE(avx512));
  if (avx2) tables.push_back(LOCKSTEP_PROCESSOR_TABLE(avx2));
#endif
  tables.push_back(LOCKSTEP_PROCESSOR_TABLE(plain));
  return tables;
}

const KernelTable& chosen_kernels() {
  static const KernelTable chosen = choose_kernels();
  return chosen;
}

const char* kernel_isa() {
  return device().kernels.isa;
}

void rms_norm_forward(int64_t rows, int64_t channels, float eps, const float* x, ConstValues weight,
                      Values y, float* rstd) {
  device().kernels.rms_norm_forward(rows, channels, eps, x, weight, y, rstd);
}

void rms_norm_backward(int64_t rows, int64_t channels, const float* x, ConstValues weight,
                       const float* rstd, const float* dy, const float* residual, float* dx,
                       float* d_weight) {
  device().kernels.rms_norm_backward(rows, channels, x, weight, rstd, dy, residual, dx, d_weight);
}

void layer_norm_forward(int64_t rows, int64_t channels, float eps, const float* x,
                        const float* weight, const float* bias, Values y, float* stats) {
  device().kernels.layer_norm_forward(rows, channels, eps, x, weight, bias, y, stats);
}

void layer_norm_backward(int64_t rows, int64_t channels, const float* x, const float* weight,
                         const float* stats, const float* dy, const float* residual, float* dx,
                         float* d_weight, float* d_bias) {
  device().kernels.layer_norm_backward(rows, channels, x, weight, stats, dy, residual, dx, d_weight,
                                       d_bias);
}

void geglu_forward(Gelu form, int64_t rows, int64_t ff, ConstValues gate_up, Values out) {
  device().kernels.geglu_forward(form, rows, ff, gate_up, out);
}

void geglu_backward(Gelu form, int64_t rows, int64_t ff, ConstValues gate_up, const float* d_out,
                    Values d_gate_up, Values act) {
  device().kernels.geglu_backward(form, rows, ff, gate_up, d_out, d_gate_up, act);
}

void gelu_forward(Gelu form, int64_t n, ConstValues x, Values out) {
  device().kernels.gelu_forward(form, n, x, out);
}

void gelu_backward(Gelu form, int64_t n, ConstValues x, const float* d_out, Values d_x,
                   Values act) {
  device().kernels.gelu_backward(form, n, x, d_out, d_x, act);
}

void softcap_forward(int64_t n, float cap, float* x) {
  device().kernels.softcap_forward(n, cap, x);
}

void softcap_backward(int64_t n, float cap, const float* y, float* d) {
  device().kernels.softcap_backward(n, cap, y, d);
}

void add_scaled(int64_t n, float factor, const float* x, float* y) {
  device().kernels.add_scaled(n, factor, x, y);
}

void scale(int64_t n, float factor, const float* x, float* y) {
  device().kernels.scale(n, factor, x, y);
}

void shift(int64_t n, float distance, const float* x, float* y) {
  device().kernels.shift(n, distance, x, y);
}

void add_to_rows(int64_t rows, int64_t n, const float* x, float* y) {
  device().kernels.add_to_rows(rows, n, x, y);
}

void sum_columns(int64_t rows, int64_t n, ConstValues x, float* sums) {
  device().kernels.sum_columns(rows, n, x, sums);
}

void copy_columns(int64_t rows, int64_t width, const float* from, int64_t from_stride, float* to,
                  int64_t to_stride) {
  device().kernels.copy_columns(rows, width, from, from_stride, to, to_stride);
}

void rotary_forward(const RotaryShape& shape, const float* table, float* rows) {
  device().kernels.rotary_forward(shape, table, rows);
}

void rotary_backward(const RotaryShape& shape, const float* table, float* d_rows) {
  device().kernels.rotary_backward(shape, table, d_rows);
}

void swiglu_forward(int64_t rows, int64_t ff, ConstValues gate_up, Values out) {
  device().kernels.swiglu_forward(rows, ff, gate_up, out);
}

void swiglu_backward(int64_t rows, int64_t ff, ConstValues gate_up, const float* d_out,
                     Values d_gate_up, Values act) {
  device().kernels.swiglu_backward(rows, ff, gate_up, d_out, d_gate_up, act);
}

void embedding_forward(int64_t rows, int64_t channels, const int32_t* tokens, ConstValues table,
                       float* y) {
  device().kernels.embedding_forward(rows, channels, tokens, table, y);
}

void embedding_backward(int64_t rows, int64_t channels, const int32_t* tokens, float factor,
                        const float* dy, float* d_table) {
  device().kernels.embedding_backward(rows, channels, tokens, factor, dy, d_table);
}

void softmax(int64_t rows, int64_t n, float* x) {
  device().kernels.softmax(rows, n, x);
}

double cross_entropy(int64_t rows, int64_t vocab, const int32_t* labels, float scale,
                     float* logits) {
  return device().kernels.cross_entropy(rows, vocab, labels, scale, logits);
}

double distill(int64_t rows, int64_t vocab, const int32_t* labels, const DistillFactors& factors,
               float scale, float* teacher, float* logits) {
  return device().kernels.distill(rows, vocab, labels, factors, scale, teacher, logits);
}

void narrow(int64_t n, const float* x, Values y) {
  device().kernels.narrow(n, x, y);
}

void widen(int64_t n, ConstValues x, float* y) {
  device().kernels.widen(n, x, y);
}

void add_in_place(int64_t n, const float* x, float* y) {
  device().kernels.add_in_place(n, x, y);
}

void dropout(const DropoutDraw& draw, int64_t n, float* x) {
  device().kernels.dropout(draw, n, x);
}

void adamw(const AdamStep& step, int64_t n, const float* gradient, float* weight, float* m,
           float* v) {
  device().kernels.adamw(step, n, gradient, weight, m, v);
}

void adam(const AdamStep& step, int64_t n, const float* gradient, float* weight, float* m,
          float* v) {
  device().kernels.adam(step, n, gradient, weight, m, v);
}

void sgd(const SgdStep& step, int64_t n, const float* gradient, float* weight, float* buffer) {
  device().kernels.sgd(step, n, gradient, weight, buffer);
}

void sum_squares_chunks(int64_t n, const float* x, double* chunk_sums) {
  device().kernels.sum_squares_chunks(n, x, chunk_sums);
}

int64_t attention_scratch_elems(const AttentionShape& shape, DType dtype) {
  return device().kernels.attention_scratch_elems(shape, dtype);
}

void attention_forward(const AttentionShape& shape, ConstValues qkv, Values out, float* log_sum_exp,
                       float* scratch) {
  device().kernels.attention_forward(shape, qkv, out, log_sum_exp, scratch);
}

int64_t attention_cache_elems(const AttentionShape& shape, int64_t capacity) {
  return shape.num_kv_heads * attention_cache_layout(capacity, shape.head_dim).num_elems;
}

int64_t attention_extend_scratch_elems(int64_t capacity) {
  const AttentionCacheLayout layout = attention_cache_layout(capacity, 0);
  return kQueryRows * layout.score_stride + layout.padded_rows + 16;
}

void attention_extend(const AttentionShape& shape, const float* qkv, const AttentionCache& cache,
                      float* out, float* scratch) {
  device().kernels.attention_extend(shape, qkv, cache, out, scratch);
}

void attention_backward(const AttentionShape& shape, ConstValues qkv, ConstValues out,
                        const float* log_sum_exp, const float* d_out, float* d_qkv,
                        float* scratch) {
  device().kernels.attention_backward(shape, qkv, out, log_sum_exp, d_out, d_qkv, scratch);
}

}  // namespace lockstep::runtime

// Causal grouped-query attention on fused QKV rows, without a stored score matrix. Arithmetic is
// fp32; rows may be stored in 16 bits, then one head at a time is widened into the scratch.
// Shapes: B batch, T time, H query heads, G key/value heads, D head size.
#pragma once

#include <cstdint>

#include "runtime/kernels/typed_values.h"

namespace lockstep::runtime {

struct AttentionShape {
  int64_t batch = 0;
  int64_t seq = 0;
  int64_t num_heads = 0;     // H
  int64_t num_kv_heads = 0;  // G, divides H
  int64_t head_dim = 0;      // D, at most 256, even
  int64_t window = 0;        // keys that a row sees, itself included; 0: all before it
  float scale = 0;           // of scores; 0: 1 / sqrt(D)
  float softcap = 0;         // scores become c tanh(score / c); 0: they stay
  // [B*T]: place of each row in its document, 0 where one begins (also at the first row of every
  // sequence); a row sees its own document only. Null: a sequence is one document. Borrowed.
  const int32_t* positions = nullptr;
  int64_t qkv_row_elems() const { return (num_heads + 2 * num_kv_heads) * head_dim; }
};

// Floats of scratch that forward and backward need at most on rows of `dtype`.
int64_t attention_scratch_elems(const AttentionShape& shape, DType dtype = DType::kFp32);

// out = softmax(causal(softcap(scale Q K^T))) V for every head and document. A document has the
// same bits wherever it lies and whatever stands beside it.
//   qkv: [B*T, (H+2G)*D], each row q heads, then k heads, then v heads (rotary already applied).
//   out: [B*T, H*D], of the type of qkv; written.  log_sum_exp: [B, H, T], base 2; written, for
//   backward.
void attention_forward(const AttentionShape& shape, ConstValues qkv, Values out, float* log_sum_exp,
                       float* scratch);

// Note [Keys and values of earlier rows]
// Text is made a token at a time: a row attends to keys and values that earlier calls have left.
// They are kept as the kernel reads them, in panels, so that a new row costs one pass over them and
// no packing. A row has the bits that attention_forward() gives it in the whole sequence.

// Floats of keys and values of at most `capacity` rows: per key/value head K transposed,
// [capacity/32][D][32], and V, [D/32][capacity][32], sizes rounded up to 32.
int64_t attention_cache_elems(const AttentionShape& shape, int64_t capacity);
// Floats of scratch for attention_extend() on a cache of `capacity` rows.
int64_t attention_extend_scratch_elems(int64_t capacity);

// Keys and values of one layer and sequence.
struct AttentionCache {
  float* rows = nullptr;  // [attention_cache_elems()], 64-byte aligned, first zero
  int64_t capacity = 0;   // rows that it has room for
  int64_t num_rows = 0;   // rows that are in it
};

// Puts rows behind those of the cache, and attends from them to all that are in it then. fp32.
//   shape: batch 1, seq the new rows; positions are not read. cache.num_rows + seq <= capacity.
//   qkv, out: as attention_forward(), of the new rows. The caller counts cache.num_rows up.
void attention_extend(const AttentionShape& shape, const float* qkv, const AttentionCache& cache,
                      float* out, float* scratch);

// Gradient of attention_forward.
//   d_out: [B*T, H*D].  d_qkv: [B*T, (H+2G)*D]; written (not accumulated).
void attention_backward(const AttentionShape& shape, ConstValues qkv, ConstValues out,
                        const float* log_sum_exp, const float* d_out, float* d_qkv, float* scratch);

}  // namespace lockstep::runtime

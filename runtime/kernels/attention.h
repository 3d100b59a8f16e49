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

// Gradient of attention_forward.
//   d_out: [B*T, H*D].  d_qkv: [B*T, (H+2G)*D]; written (not accumulated).
void attention_backward(const AttentionShape& shape, ConstValues qkv, ConstValues out,
                        const float* log_sum_exp, const float* d_out, float* d_qkv, float* scratch);

}  // namespace lockstep::runtime

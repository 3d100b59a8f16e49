// Causal attention, forward: eight query rows at a time against all earlier keys.
#include "runtime/kernels/isa/attention_tiles.h"
#include "runtime/kernels/isa/kernels.h"

namespace lockstep::runtime::LOCKSTEP_ISA {
namespace {

struct RowSoftmax {
  float inverse_sum;
  float log_sum_exp;  // base 2, of the scaled scores
};

// Replaces `visible` scores by exp2(c s - max) and the rest of the row, up to `width`, by zero.
RowSoftmax softmax_row(int64_t visible, int64_t width, float scale_log2, float* row) {
  Vec most = broadcast(row[0]);
  for_each_vec(visible, [&](int64_t i, auto lanes) {
    most = max(select(lanes, load(row + i, lanes), most), most);
  });
  const float top = max_lanes(most) * scale_log2;
  const Vec c = broadcast(scale_log2);
  const Vec minus_top = broadcast(-top);
  Vec sums = zero();
  const auto exponentials = [&](int64_t i, auto lanes) {
    const Vec p = select(lanes, exp2(fma(load(row + i, AllLanes{}), c, minus_top)), zero());
    sums = sums + p;
    store(row + i, p, AllLanes{});
  };
  for_each_vec(visible, exponentials);
  const int64_t done = (visible + kLanes - 1) / kLanes * kLanes;
  for (int64_t i = done; i < width; i += kLanes) store(row + i, zero(), AllLanes{});
  const float sum = sum_lanes(sums);
  return {1.0F / sum,
          static_cast<float>(static_cast<double>(top) + log2(static_cast<double>(sum)))};
}

// One query head; the scratch holds its keys and values in panels.
void forward_head(const HeadShape& head, const float* query, float* out, float* log_sum_exp,
                  float* scratch) {
  const float* const keys = scratch + head.layout.keys_by_dim;
  const float* const values = scratch + head.layout.rows_by_key;
  float* const probs = scratch + head.layout.probs;
  const int64_t stride = head.layout.score_stride;
  for (int64_t begin = 0; begin < head.seq; begin += kQueryRows) {
    const int64_t rows = at_most(kQueryRows, head.seq - begin);
    const int64_t num_keys = begin + rows;
    multiply_transposed(rows, num_keys, head.dim,
                        {query + begin * head.qkv_stride, head.qkv_stride, 1}, keys, probs, stride);
    float* const out_rows = out + begin * head.out_stride;
    float inverse_sums[kQueryRows];
    for (int64_t r = 0; r < rows; ++r) {
      const RowSoftmax row =
          softmax_row(begin + r + 1, num_keys, head.scale * kLog2E, probs + r * stride);
      inverse_sums[r] = row.inverse_sum;
      log_sum_exp[begin + r] = row.log_sum_exp;
    }
    for (int64_t d = 0; d < head.dim; d += kPanelCols) {
      multiply_panel(rows, num_keys, {probs, stride, 1}, values + d * head.seq,
                     {out_rows + d, head.out_stride, at_most(kPanelCols, head.dim - d), false});
    }
    for (int64_t r = 0; r < rows; ++r) {
      float* const row = out_rows + r * head.out_stride;
      for_each_vec(head.dim, [&](int64_t i, auto lanes) {
        store(row + i, load(row + i, lanes) * broadcast(inverse_sums[r]), lanes);
      });
    }
  }
}

// All heads of one document.
//   qkv, out: at its first row. log_sum_exp: at its first row of head 0; heads are shape.seq apart.
void forward_document(const AttentionShape& shape, const HeadShape& head, const float* qkv,
                      float* out, float* log_sum_exp, float* scratch) {
  const int64_t group = shape.num_heads / shape.num_kv_heads;
  for (int64_t kv = 0; kv < shape.num_kv_heads; ++kv) {
    const float* const key = qkv + (shape.num_heads + kv) * head.dim;
    const float* const value = key + shape.num_kv_heads * head.dim;
    pack_transposed(key, head.qkv_stride, head.seq, head.dim, scratch + head.layout.keys_by_dim);
    pack_rows(value, head.qkv_stride, head.seq, head.dim, head.seq,
              scratch + head.layout.rows_by_key);
    for (int64_t h = kv * group; h < (kv + 1) * group; ++h) {
      forward_head(head, qkv + h * head.dim, out + h * head.dim, log_sum_exp + h * shape.seq,
                   scratch);
    }
  }
}

}  // namespace

void attention_forward(const AttentionShape& shape, const float* qkv, float* out,
                       float* log_sum_exp, float* scratch) {
  scratch = align_to_cache_line(scratch);
  for (int64_t batch = 0; batch < shape.batch; ++batch) {
    for (int64_t begin = 0; begin < shape.seq;) {
      const int64_t end = document_end(shape, batch, begin);
      const HeadShape head = head_shape(shape, end - begin);
      const int64_t row = batch * shape.seq + begin;
      forward_document(shape, head, qkv + row * head.qkv_stride, out + row * head.out_stride,
                       log_sum_exp + batch * shape.num_heads * shape.seq + begin, scratch);
      begin = end;
    }
  }
}

}  // namespace lockstep::runtime::LOCKSTEP_ISA

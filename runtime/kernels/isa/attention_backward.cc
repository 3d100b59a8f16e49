// Causal attention, backward: probabilities are recomputed from the log-sum-exp, 64 query rows at a
// time; gradients of keys and values add up over the blocks and over the heads of a group.
#include "runtime/kernels/isa/attention_tiles.h"
#include "runtime/kernels/isa/kernels.h"

namespace lockstep::runtime::LOCKSTEP_ISA {
namespace {

// One query head's rows.
struct HeadRows {
  Rows query;
  Rows out;
  const float* d_out;
  const float* log_sum_exp;
  float* d_query;
};

float dot(int64_t n, const float* a, const float* b) {
  Vec sums = zero();
  for_each_vec(
      n, [&](int64_t i, auto lanes) { sums = fma(load(a + i, lanes), load(b + i, lanes), sums); });
  return sum_lanes(sums);
}

// Turns a row of scores into probabilities, and a row of their gradients into score gradients times
// `scale`; both are zero from `visible` to `width`.
void softmax_backward_row(int64_t visible, int64_t width, float scale, float log_sum_exp,
                          float delta, float* probs, float* d_scores) {
  const Vec c = broadcast(scale * kLog2E);
  const Vec minus_lse = broadcast(-log_sum_exp);
  const Vec factor = broadcast(scale);
  const Vec shift = broadcast(delta);
  for_each_vec(visible, [&](int64_t i, auto lanes) {
    const Vec p = select(lanes, exp2(fma(load(probs + i, AllLanes{}), c, minus_lse)), zero());
    const Vec d = p * factor * (load(d_scores + i, AllLanes{}) - shift);
    store(probs + i, p, AllLanes{});
    store(d_scores + i, select(lanes, d, zero()), AllLanes{});
  });
  const int64_t done = (visible + kLanes - 1) / kLanes * kLanes;
  for (int64_t i = done; i < width; i += kLanes) {
    store(probs + i, zero(), AllLanes{});
    store(d_scores + i, zero(), AllLanes{});
  }
}

// The same where probs has capped scores: a score's gradient is also times 1 - (capped / cap)^2.
void softmax_backward_capped_row(const HeadShape& head, int64_t visible, int64_t width,
                                 float log_sum_exp, float delta, float* probs, float* d_scores) {
  const Vec inverse = broadcast(1.0F / head.softcap);
  for_each_vec(visible, [&](int64_t i, auto lanes) {
    // What is masked lies far below -cap; its probability is 0.
    const Vec t = max(broadcast(-1.0F), load(probs + i, AllLanes{}) * inverse);
    const Vec slope = fma(zero() - t, t, broadcast(1.0F));
    const Vec d = (load(d_scores + i, AllLanes{}) - broadcast(delta)) * slope;
    store(d_scores + i, select(lanes, d, zero()), AllLanes{});
  });
  softmax_backward_row(visible, width, 1.0F, log_sum_exp, 0.0F, probs, d_scores);
  for_each_vec(width, [&](int64_t i, auto lanes) {
    store(d_scores + i, load(d_scores + i, lanes) * broadcast(head.scale), lanes);
  });
}

void softmax_backward(const HeadShape& head, int64_t visible, int64_t width, float log_sum_exp,
                      float delta, float* probs, float* d_scores) {
  if (head.softcap > 0) {
    softmax_backward_capped_row(head, visible, width, log_sum_exp, delta, probs, d_scores);
  } else {
    softmax_backward_row(visible, width, head.scale, log_sum_exp, delta, probs, d_scores);
  }
}

// Probabilities, score gradients and d_query of the query rows [begin, begin + rows).
void backward_queries(const HeadShape& head, const HeadRows& at, int64_t begin, int64_t rows,
                      float* scratch) {
  const AttentionLayout& layout = head.layout;
  const int64_t stride = layout.score_stride;
  const int64_t first_key = first_panel(head, begin);  // backward_keys() reads from there on
  for (int64_t r = 0; r < rows; r += kQueryRows) {
    const int64_t first = begin + r;
    const int64_t count = at_most(kQueryRows, rows - r);
    const int64_t num_keys = first + count;
    float* const probs = scratch + layout.probs + r * stride;
    float* const d_scores = scratch + layout.d_scores + r * stride;
    multiply_transposed(count, first_key, num_keys, head.dim,
                        {at.query.data + first * at.query.stride, at.query.stride, 1},
                        scratch + layout.keys_by_dim, probs, stride);
    multiply_transposed(count, first_key, num_keys, head.dim,
                        {at.d_out + first * head.out_stride, head.out_stride, 1},
                        scratch + layout.values_by_dim, d_scores, stride);
    for (int64_t i = 0; i < count; ++i) {
      const int64_t row = first + i;
      const float delta =
          dot(head.dim, at.out.data + row * at.out.stride, at.d_out + row * head.out_stride);
      float* const scores = probs + i * stride;
      mask_and_cap(head, first_key, row + 1, row + 1 - head.window, scores);
      softmax_backward(head, row + 1 - first_key, num_keys - first_key, at.log_sum_exp[row], delta,
                       scores + first_key, d_scores + i * stride + first_key);
    }
    for (int64_t d = 0; d < head.dim; d += kPanelCols) {
      multiply_panel(count, num_keys - first_key, {d_scores + first_key, stride, 1},
                     scratch + layout.rows_by_key + d * head.seq + first_key * kPanelCols,
                     {at.d_query + first * head.qkv_stride + d, head.qkv_stride,
                      at_most(kPanelCols, head.dim - d), false});
    }
  }
}

// Adds the block's share to d_keys and d_values, eight keys at a time; rows before a key see
// nothing of it and are left out.
void backward_keys(const HeadShape& head, int64_t begin, int64_t rows, float* scratch) {
  const AttentionLayout& layout = head.layout;
  const int64_t stride = layout.score_stride;
  for (int64_t key = first_panel(head, begin); key < begin + rows; key += kQueryRows) {
    const int64_t count = at_most(kQueryRows, begin + rows - key);
    const int64_t skip = key > begin ? key - begin : 0;
    const int64_t depth = rows - skip;
    const LeftOperand probs{scratch + layout.probs + skip * stride + key, 1, stride};
    const LeftOperand d_scores{scratch + layout.d_scores + skip * stride + key, 1, stride};
    for (int64_t d = 0; d < layout.padded_dim; d += kPanelCols) {
      const int64_t panel = d * kQueryBlock + skip * kPanelCols;
      const int64_t place = key * layout.padded_dim + d;
      multiply_panel(count, depth, probs, scratch + layout.d_out_rows + panel,
                     {scratch + layout.d_values + place, layout.padded_dim, kPanelCols, true});
      multiply_panel(count, depth, d_scores, scratch + layout.query_rows + panel,
                     {scratch + layout.d_keys + place, layout.padded_dim, kPanelCols, true});
    }
  }
}

void backward_head(const HeadShape& head, const HeadRows& at, float* scratch) {
  const AttentionLayout& layout = head.layout;
  for (int64_t begin = 0; begin < head.seq; begin += kQueryBlock) {
    const int64_t rows = at_most(kQueryBlock, head.seq - begin);
    pack_rows(at.query.data + begin * at.query.stride, at.query.stride, rows, head.dim, kQueryBlock,
              scratch + layout.query_rows);
    pack_rows(at.d_out + begin * head.out_stride, head.out_stride, rows, head.dim, kQueryBlock,
              scratch + layout.d_out_rows);
    backward_queries(head, at, begin, rows, scratch);
    backward_keys(head, begin, rows, scratch);
  }
}

void copy_rows(const HeadShape& head, const float* from, float* to) {
  for (int64_t row = 0; row < head.seq; ++row) {
    for_each_vec(head.dim, [&](int64_t i, auto lanes) {
      store(to + row * head.qkv_stride + i, load(from + row * head.layout.padded_dim + i, lanes),
            lanes);
    });
  }
}

// A document's rows, each pointing at the first.
template <class T>
struct DocumentRows {
  const T* qkv;
  const T* out;
  const float* d_out;
  const float* log_sum_exp;  // of query head 0; heads are shape.seq apart
  float* d_qkv;
};

// One key and value head of a document with the query heads of its group.
template <class T>
void backward_group(const AttentionShape& shape, const HeadShape& head, const DocumentRows<T>& at,
                    int64_t kv, float* scratch) {
  const AttentionLayout& layout = head.layout;
  const int64_t group = shape.num_heads / shape.num_kv_heads;
  const int64_t key = (shape.num_heads + kv) * head.dim;
  const int64_t value = key + shape.num_kv_heads * head.dim;
  const Rows keys = wide_rows(head, at.qkv + key, head.qkv_stride, scratch + layout.wide_key);
  const Rows values = wide_rows(head, at.qkv + value, head.qkv_stride, scratch + layout.wide_value);
  pack_transposed(keys.data, keys.stride, head.seq, head.dim, scratch + layout.keys_by_dim);
  pack_transposed(values.data, values.stride, head.seq, head.dim, scratch + layout.values_by_dim);
  pack_rows(keys.data, keys.stride, head.seq, head.dim, head.seq, scratch + layout.rows_by_key);
  for_each_vec(head.seq * layout.padded_dim, [&](int64_t i, auto lanes) {
    store(scratch + layout.d_keys + i, zero(), lanes);
    store(scratch + layout.d_values + i, zero(), lanes);
  });
  for (int64_t h = kv * group; h < (kv + 1) * group; ++h) {
    const int64_t begin = h * head.dim;
    backward_head(
        head,
        {.query = wide_rows(head, at.qkv + begin, head.qkv_stride, scratch + layout.wide_query),
         .out = wide_rows(head, at.out + begin, head.out_stride, scratch + layout.wide_out),
         .d_out = at.d_out + begin,
         .log_sum_exp = at.log_sum_exp + h * shape.seq,
         .d_query = at.d_qkv + begin},
        scratch);
  }
  copy_rows(head, scratch + layout.d_keys, at.d_qkv + key);
  copy_rows(head, scratch + layout.d_values, at.d_qkv + value);
}

template <class T>
void attention_backward_typed(const AttentionShape& shape, const T* qkv, const T* out,
                              const float* log_sum_exp, const float* d_out, float* d_qkv,
                              float* scratch) {
  scratch = align_to_cache_line(scratch);
  for (int64_t batch = 0; batch < shape.batch; ++batch) {
    for (int64_t begin = 0; begin < shape.seq;) {
      const int64_t end = document_end(shape, batch, begin);
      const HeadShape head = head_shape(shape, end - begin);
      const int64_t row = batch * shape.seq + begin;
      const DocumentRows<T> at{
          .qkv = qkv + row * head.qkv_stride,
          .out = out + row * head.out_stride,
          .d_out = d_out + row * head.out_stride,
          .log_sum_exp = log_sum_exp + batch * shape.num_heads * shape.seq + begin,
          .d_qkv = d_qkv + row * head.qkv_stride};
      for (int64_t kv = 0; kv < shape.num_kv_heads; ++kv) {
        backward_group(shape, head, at, kv, scratch);
      }
      begin = end;
    }
  }
}

}  // namespace

void attention_backward(const AttentionShape& shape, ConstValues qkv, ConstValues out,
                        const float* log_sum_exp, const float* d_out, float* d_qkv,
                        float* scratch) {
  with_stored_type(qkv.dtype, [&]<class T>(Stored<T>) {
    attention_backward_typed(shape, static_cast<const T*>(qkv.data),
                             static_cast<const T*>(out.data), log_sum_exp, d_out, d_qkv, scratch);
  });
}

}  // namespace lockstep::runtime::LOCKSTEP_ISA

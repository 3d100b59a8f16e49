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

// What a query head attends to, and where its scores go.
struct Attended {
  const float* keys;    // panels of K transposed
  const float* values;  // panels of V
  int64_t value_rows;   // of a panel of V
  float* probs;         // [8][score_stride]
  int64_t score_stride;
};

// One query head. query, out, log_sum_exp: from head.first_query on; rows of out `out_stride`
// apart.
void forward_head(const HeadShape& head, const Rows& query, const Attended& at, float* out,
                  int64_t out_stride, float* log_sum_exp) {
  float* const probs = at.probs;
  const int64_t stride = at.score_stride;
  const float scale = head.softcap > 0 ? 1.0F : head.scale;  // of what softmax is given
  for (int64_t begin = head.first_query; begin < head.seq; begin += kQueryRows) {
    const int64_t place = begin - head.first_query;
    const int64_t rows = at_most(kQueryRows, head.seq - begin);
    const int64_t num_keys = begin + rows;
    const int64_t first = first_panel(head, begin);
    multiply_transposed(rows, first, num_keys, head.dim,
                        {query.data + place * query.stride, query.stride, 1}, at.keys, probs,
                        stride);
    float* const out_rows = out + place * out_stride;
    float inverse_sums[kQueryRows];
    for (int64_t r = 0; r < rows; ++r) {
      const int64_t visible = begin + r + 1;
      float* const scores = probs + r * stride;
      mask_and_cap(head, first, visible, visible - head.window, scores);
      const RowSoftmax row =
          softmax_row(visible - first, num_keys - first, scale * kLog2E, scores + first);
      inverse_sums[r] = row.inverse_sum;
      log_sum_exp[place + r] = row.log_sum_exp;
    }
    for (int64_t d = 0; d < head.dim; d += kPanelCols) {
      multiply_panel(rows, num_keys - first, {probs + first, stride, 1},
                     at.values + d * at.value_rows + first * kPanelCols,
                     {out_rows + d, out_stride, at_most(kPanelCols, head.dim - d), false});
    }
    for (int64_t r = 0; r < rows; ++r) {
      float* const row = out_rows + r * out_stride;
      for_each_vec(head.dim, [&](int64_t i, auto lanes) {
        store(row + i, load(row + i, lanes) * broadcast(inverse_sums[r]), lanes);
      });
    }
  }
}

// The packed head of the scratch.
Attended packed_head(const HeadShape& head, float* scratch) {
  return {.keys = scratch + head.layout.keys_by_dim,
          .values = scratch + head.layout.rows_by_key,
          .value_rows = head.seq,
          .probs = scratch + head.layout.probs,
          .score_stride = head.layout.score_stride};
}

// Into rows of the output.
void forward_head_into(const HeadShape& head, const Rows& query, float* out, float* log_sum_exp,
                       float* scratch) {
  forward_head(head, query, packed_head(head, scratch), out, head.out_stride, log_sum_exp);
}
template <class T>
void forward_head_into(const HeadShape& head, const Rows& query, T* out, float* log_sum_exp,
                       float* scratch) {
  float* const wide = scratch + head.layout.wide_out;
  forward_head(head, query, packed_head(head, scratch), wide, head.dim, log_sum_exp);
  for (int64_t row = 0; row < head.seq; ++row) {
    for_each_vec(head.dim, [&](int64_t i, auto lanes) {
      store(out + row * head.out_stride + i, load(wide + row * head.dim + i, lanes), lanes);
    });
  }
}

// All heads of one document.
//   qkv, out: at its first row. log_sum_exp: at its first row of head 0; heads are shape.seq apart.
template <class T>
void forward_document(const AttentionShape& shape, const HeadShape& head, const T* qkv, T* out,
                      float* log_sum_exp, float* scratch) {
  const AttentionLayout& layout = head.layout;
  const int64_t group = shape.num_heads / shape.num_kv_heads;
  for (int64_t kv = 0; kv < shape.num_kv_heads; ++kv) {
    const T* const first_key = qkv + (shape.num_heads + kv) * head.dim;
    const T* const first_value = first_key + shape.num_kv_heads * head.dim;
    const Rows key = wide_rows(head, first_key, head.qkv_stride, scratch + layout.wide_key);
    const Rows value = wide_rows(head, first_value, head.qkv_stride, scratch + layout.wide_value);
    pack_transposed(key.data, key.stride, head.seq, head.dim, scratch + layout.keys_by_dim);
    pack_rows(value.data, value.stride, head.seq, head.dim, head.seq, scratch + layout.rows_by_key);
    for (int64_t h = kv * group; h < (kv + 1) * group; ++h) {
      const Rows query =
          wide_rows(head, qkv + h * head.dim, head.qkv_stride, scratch + layout.wide_query);
      forward_head_into(head, query, out + h * head.dim, log_sum_exp + h * shape.seq, scratch);
    }
  }
}

template <class T>
void attention_forward_typed(const AttentionShape& shape, const T* qkv, T* out, float* log_sum_exp,
                             float* scratch) {
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

// Puts rows of keys and values into the panels of a head, from row `first` on.
void remember_rows(const float* keys, const float* values, int64_t stride, int64_t num_rows,
                   int64_t dim, int64_t first, const AttentionCacheLayout& layout, float* head) {
  for (int64_t r = 0; r < num_rows; ++r) {
    const int64_t row = first + r;
    float* const key = head + row / kPanelCols * dim * kPanelCols + row % kPanelCols;
    float* const value = head + layout.rows_by_key + row * kPanelCols;
    for (int64_t d = 0; d < dim; ++d) {
      key[d * kPanelCols] = keys[r * stride + d];
      value[d / kPanelCols * layout.padded_rows * kPanelCols + d % kPanelCols] =
          values[r * stride + d];
    }
  }
}

}  // namespace

void attention_extend(const AttentionShape& shape, const float* qkv, const AttentionCache& cache,
                      float* out, float* scratch) {
  HeadShape head = head_shape(shape, cache.num_rows + shape.seq);
  head.first_query = cache.num_rows;
  const AttentionCacheLayout layout = attention_cache_layout(cache.capacity, head.dim);
  const int64_t group = shape.num_heads / shape.num_kv_heads;
  float* const probs = align_to_cache_line(scratch);
  for (int64_t kv = 0; kv < shape.num_kv_heads; ++kv) {
    float* const panels = cache.rows + kv * layout.num_elems;
    const float* const keys = qkv + (shape.num_heads + kv) * head.dim;
    remember_rows(keys, keys + shape.num_kv_heads * head.dim, head.qkv_stride, shape.seq, head.dim,
                  cache.num_rows, layout, panels);
    const Attended at = {.keys = panels,
                         .values = panels + layout.rows_by_key,
                         .value_rows = layout.padded_rows,
                         .probs = probs,
                         .score_stride = layout.score_stride};
    for (int64_t h = kv * group; h < (kv + 1) * group; ++h) {
      forward_head(head, {qkv + h * head.dim, head.qkv_stride}, at, out + h * head.dim,
                   head.out_stride, probs + kQueryRows * layout.score_stride);
    }
  }
}

int64_t attention_scratch_elems(const AttentionShape& shape, DType dtype) {
  const AttentionLayout layout = attention_layout(shape.seq, shape.head_dim);
  return dtype == DType::kFp32 ? layout.num_elems : layout.num_elems_with_wide;
}

void attention_forward(const AttentionShape& shape, ConstValues qkv, Values out, float* log_sum_exp,
                       float* scratch) {
  with_stored_type(qkv.dtype, [&]<class T>(Stored<T>) {
    attention_forward_typed(shape, static_cast<const T*>(qkv.data), static_cast<T*>(out.data),
                            log_sum_exp, scratch);
  });
}

}  // namespace lockstep::runtime::LOCKSTEP_ISA

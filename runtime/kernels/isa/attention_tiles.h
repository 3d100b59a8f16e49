// Packing and the register-tiled product that forward and backward attention share.
#pragma once

#include "runtime/kernels/attention.h"
#include "runtime/kernels/attention_layout.h"
#include "runtime/kernels/isa/half.h"
#include "runtime/kernels/isa/vector_math.h"

namespace lockstep::runtime::LOCKSTEP_ISA {

// The left operand of a product, read in place: element (row, k) at data[row * row_stride + k *
// depth_stride].
struct LeftOperand {
  const float* data;
  int64_t row_stride;
  int64_t depth_stride;
};

// Where a product goes: `cols` (at most 32) columns of each row are stored.
struct TileOutput {
  float* data;
  int64_t row_stride;
  int64_t cols;
  bool accumulate;
};

LOCKSTEP_INLINE void store_columns(const TileOutput& out, int64_t row, int64_t col, Vec value) {
  float* const place = out.data + row * out.row_stride + col;
  const int64_t count = out.cols - col;
  if (count >= kLanes) {
    store(place, out.accumulate ? load(place, AllLanes{}) + value : value, AllLanes{});
  } else if (count > 0) {
    const FirstLanes lanes{count};
    store(place, out.accumulate ? load(place, lanes) + value : value, lanes);
  }
}

// Rows [row, row + kRows) and columns [col, col + 16 kVecs) of a product. Each element is one chain
// of fused multiply-adds over k, so the tile's size does not enter its bits.
template <int kRows, int kVecs>
void multiply_tile(int64_t depth, const LeftOperand& left, const float* panel, int64_t row,
                   int64_t col, const TileOutput& out) {
  Vec sum[kRows][kVecs];
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 2
    for (int c = 0; c < kVecs; ++c) sum[r][c] = zero();
  }
  const float* a = left.data + row * left.row_stride;
  const float* b = panel + col;
  for (int64_t k = 0; k < depth; ++k, a += left.depth_stride, b += kPanelCols) {
    Vec right[kVecs];
#pragma GCC unroll 2
    for (int c = 0; c < kVecs; ++c) right[c] = load(b + c * kLanes, AllLanes{});
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) {
      const Vec x = broadcast(a[r * left.row_stride]);
#pragma GCC unroll 2
      for (int c = 0; c < kVecs; ++c) sum[r][c] = fma(x, right[c], sum[r][c]);
    }
  }
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 2
    for (int c = 0; c < kVecs; ++c) store_columns(out, row + r, col + c * kLanes, sum[r][c]);
  }
}

// Rows [row, row + num_rows) with num_rows in 1..kRows.
template <int kRows>
void multiply_rows(int64_t num_rows, int64_t depth, const LeftOperand& left, const float* panel,
                   int64_t row, const TileOutput& out) {
  if constexpr (kRows > 1) {
    if (num_rows < kRows) {
      return multiply_rows<kRows - 1>(num_rows, depth, left, panel, row, out);
    }
  }
  for (int64_t col = 0; col < out.cols; col += kTileVecs * kLanes) {
    multiply_tile<kRows, kTileVecs>(depth, left, panel, row, col, out);
  }
}

// out[r][c] (+)= sum over k < depth of left(r, k) * panel[k * 32 + c], r < num_rows, c < out.cols.
LOCKSTEP_INLINE void multiply_panel(int64_t num_rows, int64_t depth, const LeftOperand& left,
                                    const float* panel, const TileOutput& out) {
  for (int64_t row = 0; row < num_rows; row += kTileRows) {
    const int64_t rest = num_rows - row;
    multiply_rows<kTileRows>(rest < kTileRows ? rest : kTileRows, depth, left, panel, row, out);
  }
}

// Packs `rows` rows of `dim` floats into panels [rows/32][dim][32], transposed; absent rows are
// zero.
LOCKSTEP_INLINE void pack_transposed(const float* data, int64_t row_stride, int64_t rows,
                                     int64_t dim, float* panels) {
  for (int64_t begin = 0; begin < rows; begin += kPanelCols, panels += dim * kPanelCols) {
    const int64_t count = rows - begin < kPanelCols ? rows - begin : kPanelCols;
    const float* const from = data + begin * row_stride;
    for (int64_t d = 0; d < dim; ++d) {
      float* const to = panels + d * kPanelCols;
      for (int64_t r = 0; r < count; ++r) to[r] = from[r * row_stride + d];
      for (int64_t r = count; r < kPanelCols; ++r) to[r] = 0;
    }
  }
}

// Packs rows into panels [dim/32][stride_rows][32], dims beyond `dim` zero.
LOCKSTEP_INLINE void pack_rows(const float* data, int64_t row_stride, int64_t rows, int64_t dim,
                               int64_t stride_rows, float* panels) {
  for (int64_t begin = 0; begin < dim; begin += kPanelCols) {
    float* const panel = panels + begin * stride_rows;
    for (int64_t r = 0; r < rows; ++r) {
      const float* const from = data + r * row_stride + begin;
      float* const to = panel + r * kPanelCols;
      store(to, zero(), AllLanes{});
      store(to + kLanes, zero(), AllLanes{});
      const int64_t count = dim - begin < kPanelCols ? dim - begin : kPanelCols;
      for_each_vec(count,
                   [&](int64_t i, auto lanes) { store(to + i, load(from + i, lanes), lanes); });
    }
  }
}

// Scores of query rows against keys [first_key, num_keys): left rows times the transposed panels.
// Keys of a panel, and scores of a row, are counted from key 0; first_key begins a panel.
LOCKSTEP_INLINE void multiply_transposed(int64_t num_rows, int64_t first_key, int64_t num_keys,
                                         int64_t dim, const LeftOperand& left, const float* panels,
                                         float* scores, int64_t score_stride) {
  for (int64_t key = first_key; key < num_keys; key += kPanelCols) {
    multiply_panel(num_rows, dim, left, panels + key * dim,
                   {scores + key, score_stride, kPanelCols, false});
  }
}

// One head's sizes and distances in a document, and its scratch.
struct HeadShape {
  int64_t seq;  // rows of the document
  int64_t dim;
  int64_t qkv_stride;  // distance of fused rows
  int64_t out_stride;  // distance of output rows
  float scale;         // of scores
  float softcap;       // 0: none
  int64_t window;      // at least 1
  AttentionLayout layout;
  int64_t first_query = 0;  // rows before it have keys and values only
};

LOCKSTEP_INLINE HeadShape head_shape(const AttentionShape& shape, int64_t document_rows) {
  const int64_t dim = shape.head_dim;
  return {.seq = document_rows,
          .dim = dim,
          .qkv_stride = (shape.num_heads + 2 * shape.num_kv_heads) * dim,
          .out_stride = shape.num_heads * dim,
          .scale = shape.scale > 0 ? shape.scale : 1.0F / __builtin_sqrtf(static_cast<float>(dim)),
          .softcap = shape.softcap,
          .window = shape.window > 0 ? shape.window : document_rows,
          .layout = attention_layout(document_rows, dim)};
}

// The panel of keys with the first one that `row` sees.
LOCKSTEP_INLINE int64_t first_panel(const HeadShape& head, int64_t row) {
  const int64_t first = row + 1 - head.window;
  return first > 0 ? first / kPanelCols * kPanelCols : 0;
}

// Makes of the scores [begin, end) of a row, of which it sees none before `first_seen`, what
// softmax takes times log2(e) of: the capped ones, or with `softcap` 0 still unscaled ones.
LOCKSTEP_INLINE void mask_and_cap(const HeadShape& head, int64_t begin, int64_t end,
                                  int64_t first_seen, float* row) {
  if (head.softcap > 0) {
    const Vec cap = broadcast(head.softcap);
    const Vec factor = broadcast(head.scale / head.softcap);
    for_each_vec(end - begin, [&](int64_t i, auto lanes) {
      float* const place = row + begin + i;
      store(place, cap * tanh(load(place, lanes) * factor), lanes);
    });
  }
  for (int64_t i = begin; i < first_seen; ++i) row[i] = -1e30F;  // its exponential is 0
}

// The first row after the document that begins at `begin`, a row of [0, shape.seq) of sequence
// `batch`.
LOCKSTEP_INLINE int64_t document_end(const AttentionShape& shape, int64_t batch, int64_t begin) {
  if (shape.positions == nullptr) return shape.seq;
  const int32_t* const positions = shape.positions + batch * shape.seq;
  int64_t end = begin + 1;
  while (end < shape.seq && positions[end] != 0) ++end;
  return end;
}

// One head's rows of floats: element (row, d) at data[row * stride + d].
struct Rows {
  const float* data;
  int64_t stride;
};

// One head's rows as floats: where they lie, or, from 16 bits, a copy in `wide`, [T][D].
LOCKSTEP_INLINE Rows wide_rows(const HeadShape&, const float* rows, int64_t stride, float*) {
  return {rows, stride};
}
template <class T>
LOCKSTEP_INLINE Rows wide_rows(const HeadShape& head, const T* rows, int64_t stride, float* wide) {
  for (int64_t row = 0; row < head.seq; ++row) {
    for_each_vec(head.dim, [&](int64_t i, auto lanes) {
      store(wide + row * head.dim + i, load(rows + row * stride + i, lanes), lanes);
    });
  }
  return {wide, head.dim};
}

LOCKSTEP_INLINE float* align_to_cache_line(float* scratch) {
  return reinterpret_cast<float*>((reinterpret_cast<uintptr_t>(scratch) + 63U) & ~uintptr_t{63});
}

LOCKSTEP_INLINE int64_t at_most(int64_t value, int64_t limit) {
  return value < limit ? value : limit;
}

}  // namespace lockstep::runtime::LOCKSTEP_ISA

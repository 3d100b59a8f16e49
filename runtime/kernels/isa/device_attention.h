// Tiles of attention on a device: 64 query rows against 64 keys, by one block of threads.
//
// Note [Attention on a device]
// A kernel of our own, and not ATen's flash attention: it has soft-caps, windows and documents in
// one place, runs on the host in tests, and needs 2 GB of libraries less. It multiplies in fp32
// without tensor cores, which is its price.
// A block owns what it writes, so nothing is added to by two of them: queries' gradients come from
// one kernel, keys' and values' from another, which computes the probabilities again. Group g of a
// block has rows 4g to 4g + 3 of its tile, lane l columns l, l + 16, l + 32 and l + 48. Every
// element is one chain of fused multiply-adds in rising order of what is summed over; what is
// masked adds zero. Tiles of keys begin at the document's first row, so a document has the same
// bits wherever it lies and whatever stands beside it.
#pragma once

#include "runtime/kernels/attention.h"
#include "runtime/kernels/isa/half.h"
#include "runtime/kernels/isa/vector_math.h"

namespace lockstep::runtime::LOCKSTEP_ISA {

// Part of the arithmetic, as on processors: see attention_layout.h.
inline constexpr int64_t kTile = 64;                     // rows of a tile
inline constexpr int64_t kChunkDims = 32;                // of a head, in shared memory at a time
inline constexpr int kOwn = 4;                           // rows of a group, and columns of a lane
inline constexpr int64_t kChunkStride = kChunkDims + 1;  // off the same bank of shared memory
inline constexpr int64_t kWeightStride = kTile + 1;
inline constexpr int64_t kChunkFloats = kTile * kChunkStride;
inline constexpr int64_t kSharedFloats = 2 * kChunkFloats + kTile * kWeightStride;
static_assert(kTile == kBlockGroups * kOwn && kTile == kLanes * kOwn);

LOCKSTEP_INLINE float read_value(ConstValues values, int64_t index) {
  switch (values.dtype) {
    case DType::kBf16:
      return widen_one(static_cast<const uint16_t*>(values.data)[index], Stored<Bf16>{});
    case DType::kFp16:
      return widen_one(static_cast<const uint16_t*>(values.data)[index], Stored<Fp16>{});
    case DType::kFp32:
      break;
  }
  return static_cast<const float*>(values.data)[index];
}
LOCKSTEP_INLINE void write_value(Values values, int64_t index, float value) {
  switch (values.dtype) {
    case DType::kBf16:
      static_cast<uint16_t*>(values.data)[index] = narrow_one(value, Stored<Bf16>{});
      return;
    case DType::kFp16:
      static_cast<uint16_t*>(values.data)[index] = narrow_one(value, Stored<Fp16>{});
      return;
    case DType::kFp32:
      static_cast<float*>(values.data)[index] = value;
      return;
  }
}

// One head's rows: element (row, d) at begin + row * stride + d of `values`.
struct HeadOf {
  ConstValues values;
  int64_t begin;
  int64_t stride;
};

// What the blocks of a launch have in common, and the part of one block.
struct TileShape {
  AttentionShape shape;
  float scale;  // never 0
  int64_t window;
  int64_t num_tiles;  // of a sequence
};
inline TileShape tile_shape(const AttentionShape& shape) {
  const auto dim = static_cast<float>(shape.head_dim);
  return {.shape = shape,
          .scale = shape.scale > 0 ? shape.scale : 1.0F / __builtin_sqrtf(dim),
          .window = shape.window > 0 ? shape.window : shape.seq,
          .num_tiles = (shape.seq + kTile - 1) / kTile};
}
struct BlockPlace {
  int64_t batch;
  int64_t head;   // of queries, or of keys
  int64_t first;  // row of the tile
};
LOCKSTEP_INLINE BlockPlace block_place(const TileShape& tiles, int64_t num_heads, int64_t block) {
  const int64_t head = block / tiles.num_tiles;
  return {head / num_heads, head % num_heads, block % tiles.num_tiles * kTile};
}

// Head `index` of the fused rows of one sequence: query heads, then key heads, then value heads.
LOCKSTEP_INLINE HeadOf fused_head(const AttentionShape& shape, ConstValues qkv, int64_t batch,
                                  int64_t index) {
  const int64_t stride = (shape.num_heads + 2 * shape.num_kv_heads) * shape.head_dim;
  return {qkv, batch * shape.seq * stride + index * shape.head_dim, stride};
}
LOCKSTEP_INLINE HeadOf head_of_output(const AttentionShape& shape, ConstValues out, int64_t batch,
                                      int64_t head) {
  const int64_t stride = shape.num_heads * shape.head_dim;
  return {out, batch * shape.seq * stride + head * shape.head_dim, stride};
}

// First row of the document of a row of a sequence.
LOCKSTEP_INLINE int64_t document_begin(const AttentionShape& shape, int64_t batch, int64_t row) {
  return shape.positions == nullptr ? 0 : row - shape.positions[batch * shape.seq + row];
}

// Copies 64 rows of up to 32 dims to shared memory; zero beyond `end_row` and the head's size.
LOCKSTEP_INLINE void load_chunk(const AttentionShape& shape, const HeadOf& head, int64_t first_row,
                                int64_t end_row, int64_t first_dim, float* chunk) {
  for (int64_t e = thread_index(); e < kTile * kChunkDims; e += kBlockThreads) {
    const int64_t row = first_row + e / kChunkDims;
    const int64_t dim = first_dim + e % kChunkDims;
    const bool is_there = row < end_row && dim < shape.head_dim;
    chunk[e / kChunkDims * kChunkStride + e % kChunkDims] =
        is_there ? read_value(head.values, head.begin + row * head.stride + dim) : 0.0F;
  }
}

// This thread's part of a tile of 64 x 64.
struct TilePart {
  float at[kOwn][kOwn];
};
LOCKSTEP_INLINE int64_t own_row(int i) {
  return thread_index() / kLanes * kOwn + i;
}
LOCKSTEP_INLINE int64_t own_column(int c) {
  return lane() + kLanes * c;
}

// The products of 64 rows of `left` with 64 of `right`. Waits for the block before and after.
LOCKSTEP_INLINE TilePart multiply_rows(const AttentionShape& shape, const HeadOf& left,
                                       int64_t left_row, const HeadOf& right, int64_t right_row,
                                       float* shared) {
  TilePart sum = {};
  float* const left_chunk = shared;
  float* const right_chunk = shared + kChunkFloats;
  for (int64_t dim = 0; dim < shape.head_dim; dim += kChunkDims) {
    sync_block();
    load_chunk(shape, left, left_row, shape.seq, dim, left_chunk);
    load_chunk(shape, right, right_row, shape.seq, dim, right_chunk);
    sync_block();
    for (int d = 0; d < kChunkDims; ++d) {
      float a[kOwn];
      for (int i = 0; i < kOwn; ++i) a[i] = left_chunk[own_row(i) * kChunkStride + d];
      for (int c = 0; c < kOwn; ++c) {
        const float b = right_chunk[own_column(c) * kChunkStride + d];
        for (int i = 0; i < kOwn; ++i) sum.at[i][c] = __builtin_fmaf(a[i], b, sum.at[i][c]);
      }
    }
  }
  return sum;
}

LOCKSTEP_INLINE float* weights_of(float* shared) {
  return shared + 2 * kChunkFloats;
}
LOCKSTEP_INLINE void store_weights(const TilePart& part, float* shared) {
  for (int i = 0; i < kOwn; ++i) {
    for (int c = 0; c < kOwn; ++c) {
      weights_of(shared)[own_row(i) * kWeightStride + own_column(c)] = part.at[i][c];
    }
  }
}

// This thread's part of 64 rows of a head: dims lane, lane + 16, ... of its group's rows.
template <int kChunks>
struct RowSums {
  float at[kOwn][2 * kChunks];
};

// Adds to each row the 64 rows of `rows` times the row's weights in shared memory. Waits for the
// block before and after.
template <int kChunks>
LOCKSTEP_INLINE void add_weighted_rows(const AttentionShape& shape, const HeadOf& rows,
                                       int64_t first_row, float* shared, RowSums<kChunks>& sums) {
  LOCKSTEP_UNROLL
  for (int chunk = 0; chunk < kChunks; ++chunk) {
    sync_block();
    load_chunk(shape, rows, first_row, shape.seq, chunk * kChunkDims, shared);
    sync_block();
    for (int k = 0; k < kTile; ++k) {
      float weight[kOwn];
      for (int i = 0; i < kOwn; ++i) {
        weight[i] = weights_of(shared)[own_row(i) * kWeightStride + k];
      }
      for (int c = 0; c < 2; ++c) {
        const float value = shared[k * kChunkStride + own_column(c)];
        for (int i = 0; i < kOwn; ++i) {
          float& sum = sums.at[i][2 * chunk + c];
          sum = __builtin_fmaf(weight[i], value, sum);
        }
      }
    }
  }
}

// Writes row i of `sums` times `factor` to element `begin` and the following of `out`.
template <int kChunks>
LOCKSTEP_INLINE void write_row(const AttentionShape& shape, const RowSums<kChunks>& sums, int i,
                               float factor, Values out, int64_t begin) {
  LOCKSTEP_UNROLL
  for (int part = 0; part < 2 * kChunks; ++part) {
    const int64_t dim = own_column(part);
    if (dim < shape.head_dim) write_value(out, begin + dim, sums.at[i][part] * factor);
  }
}

// A score as softmax takes it, in powers of two, and how it rises with the product of query and
// key.
struct Score {
  float exponent;
  float slope;
};
LOCKSTEP_INLINE Score score_of(const TileShape& tiles, float product) {
  const float cap = tiles.shape.softcap;
  if (cap > 0) {
    const float t = tanh(Vec{product * (tiles.scale / cap)}).v;
    return {cap * t * kLog2E, __builtin_fmaf(-t, t, 1.0F) * tiles.scale};
  }
  return {product * (tiles.scale * kLog2E), tiles.scale};
}

// The keys that the rows [row, end) of a tile see, as far as they are of the document of `row`.
struct KeyRange {
  int64_t document;    // its first row
  int64_t first_tile;  // tiles of keys are counted from there
  int64_t end;         // of the rows of this document, and so of their keys
};
LOCKSTEP_INLINE KeyRange keys_of_document(const TileShape& tiles, int64_t batch, int64_t row,
                                          int64_t end) {
  const int64_t document = document_begin(tiles.shape, batch, row);
  int64_t last = row;
  while (last + 1 < end && document_begin(tiles.shape, batch, last + 1) == document) ++last;
  const int64_t first_seen = row + 1 - tiles.window;
  const int64_t skipped = first_seen > document ? (first_seen - document) / kTile * kTile : 0;
  return {document, document + skipped, last + 1};
}

// Whether a row of that document sees a key. Rows of other documents see none: those before it
// end before its keys, those behind it begin at its end.
LOCKSTEP_INLINE bool sees(const TileShape& tiles, const KeyRange& keys, int64_t row, int64_t key) {
  return row < keys.end && key >= keys.document && key <= row && key > row - tiles.window;
}

template <int kCount>
struct Chunks {};

// Calls kernel(Chunks<n>{}) with the fewest chunks that hold a head.
template <class Kernel>
void with_chunks(int64_t head_dim, const Kernel& kernel) {
  if (head_dim <= 2 * kChunkDims) return kernel(Chunks<2>{});
  if (head_dim <= 4 * kChunkDims) return kernel(Chunks<4>{});
  kernel(Chunks<8>{});
}

}  // namespace lockstep::runtime::LOCKSTEP_ISA

// Causal attention on a device, forward: Note [Attention on a device].
#include "runtime/kernels/isa/device_attention.h"
#include "runtime/kernels/isa/kernels.h"

namespace lockstep::runtime::LOCKSTEP_ISA {
namespace {

// Far below any score; the difference to one has the exponential 0.
inline constexpr float kNothingSeen = -1e30F;

// One block: 64 query rows of a head against the keys of their documents, tile after tile. When a
// row meets a larger score, what it has added up so far shrinks ("online softmax", Milakov and
// Gimelshein, arXiv:1805.02867).
template <int kChunks>
struct ForwardTile {
  TileShape tiles;
  ConstValues qkv;
  Values out;
  float* log_sum_exp;

  struct Rows {
    RowSums<kChunks> sums = {};
    float top[kOwn];
    float total[kOwn] = {};
  };

  // Turns products into weights relative to the rows' new largest scores.
  LOCKSTEP_MEMBER void weigh(const KeyRange& keys, int64_t first_row, int64_t first_key,
                             TilePart& part, Rows& rows) const {
    LOCKSTEP_UNROLL
    for (int i = 0; i < kOwn; ++i) {
      float top = kNothingSeen;
      for (int c = 0; c < kOwn; ++c) {
        const bool is_seen = sees(tiles, keys, first_row + own_row(i), first_key + own_column(c));
        part.at[i][c] = is_seen ? score_of(tiles, part.at[i][c]).exponent : kNothingSeen;
        top = part.at[i][c] > top ? part.at[i][c] : top;
      }
      top = max(Vec{max_lanes(Vec{top})}, Vec{rows.top[i]}).v;
      float sum = 0;
      for (int c = 0; c < kOwn; ++c) {
        const bool is_seen = part.at[i][c] != kNothingSeen;
        part.at[i][c] = is_seen ? exp2(Vec{part.at[i][c] - top}).v : 0.0F;
        sum += part.at[i][c];
      }
      const float shrink = exp2(Vec{rows.top[i] - top}).v;
      rows.top[i] = top;
      rows.total[i] = rows.total[i] * shrink + sum_lanes(Vec{sum});
      LOCKSTEP_UNROLL
      for (int d = 0; d < 2 * kChunks; ++d) rows.sums.at[i][d] *= shrink;
    }
  }

  LOCKSTEP_MEMBER void operator()(int64_t block, float* shared) const {
    const AttentionShape& shape = tiles.shape;
    const BlockPlace at = block_place(tiles, shape.num_heads, block);
    const int64_t key_head = at.head / (shape.num_heads / shape.num_kv_heads);
    const HeadOf query = fused_head(shape, qkv, at.batch, at.head);
    const HeadOf key = fused_head(shape, qkv, at.batch, shape.num_heads + key_head);
    const HeadOf value =
        fused_head(shape, qkv, at.batch, shape.num_heads + shape.num_kv_heads + key_head);
    Rows rows;
    for (int i = 0; i < kOwn; ++i) rows.top[i] = kNothingSeen;
    const int64_t end = at.first + kTile < shape.seq ? at.first + kTile : shape.seq;
    for (int64_t row = at.first; row < end;) {
      const KeyRange keys = keys_of_document(tiles, at.batch, row, end);
      for (int64_t k = keys.first_tile; k < keys.end; k += kTile) {
        TilePart part = multiply_rows(shape, query, at.first, key, k, shared);
        weigh(keys, at.first, k, part, rows);
        store_weights(part, shared);
        add_weighted_rows(shape, value, k, shared, rows.sums);
      }
      row = keys.end;
    }
    const HeadOf to = head_of_output(shape, out, at.batch, at.head);
    LOCKSTEP_UNROLL
    for (int i = 0; i < kOwn; ++i) {
      const int64_t row = at.first + own_row(i);
      if (row >= shape.seq) continue;
      write_row(shape, rows.sums, i, 1.0F / rows.total[i], out, to.begin + row * to.stride);
      const double sum =
          static_cast<double>(rows.top[i]) + log2(static_cast<double>(rows.total[i]));
      const int64_t head = at.batch * shape.num_heads + at.head;
      set_once(log_sum_exp, head * shape.seq + row, static_cast<float>(sum));
    }
  }
};

template <int kChunks>
void launch_forward(Chunks<kChunks>, const TileShape& tiles, ConstValues qkv, Values out,
                    float* log_sum_exp) {
  const AttentionShape& shape = tiles.shape;
  launch_blocks(shape.batch * shape.num_heads * tiles.num_tiles, kSharedFloats,
                ForwardTile<kChunks>{tiles, qkv, out, log_sum_exp});
}

}  // namespace

int64_t attention_scratch_elems(const AttentionShape& shape, DType /*dtype*/) {
  return shape.batch * shape.num_heads *
         shape.seq;  // backward's products of a row and its gradient
}

void attention_forward(const AttentionShape& shape, ConstValues qkv, Values out, float* log_sum_exp,
                       float* /*scratch*/) {
  if (shape.batch * shape.seq == 0) return;
  with_chunks(shape.head_dim, [&](auto chunks) {
    launch_forward(chunks, tile_shape(shape), qkv, out, log_sum_exp);
  });
}

}  // namespace lockstep::runtime::LOCKSTEP_ISA

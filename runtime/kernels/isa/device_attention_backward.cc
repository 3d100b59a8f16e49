// Causal attention on a device, backward: Note [Attention on a device].
#include "runtime/kernels/isa/device_attention.h"
#include "runtime/kernels/isa/kernels.h"

namespace lockstep::runtime::LOCKSTEP_ISA {
namespace {

// What both kernels read.
struct BackwardInput {
  TileShape tiles;
  ConstValues qkv;
  const float* d_out;
  const float* log_sum_exp;  // [B, H, T]
  const float* deltas;       // [B, H, T], of each row of the output the product with its gradient
};

// A query row of the output, as softmax's gradient needs it.
struct RowFacts {
  float log_sum_exp;
  float delta;
};
LOCKSTEP_INLINE RowFacts facts_of(const BackwardInput& in, int64_t batch, int64_t head,
                                  int64_t row) {
  const AttentionShape& shape = in.tiles.shape;
  if (row >= shape.seq) return {0, 0};
  const int64_t index = (batch * shape.num_heads + head) * shape.seq + row;
  return {in.log_sum_exp[index], in.deltas[index]};
}

struct ScoreGradient {
  float probability;
  float gradient;  // of the product of query and key
};
LOCKSTEP_INLINE ScoreGradient gradient_of(const BackwardInput& in, const RowFacts& row,
                                          float product, float d_probability) {
  const Score score = score_of(in.tiles, product);
  const float p = exp2(Vec{score.exponent - row.log_sum_exp}).v;
  return {p, p * (d_probability - row.delta) * score.slope};
}

// One block: gradients of 64 query rows of a head.
template <int kChunks>
struct QueryTile {
  BackwardInput in;
  float* d_qkv;

  LOCKSTEP_MEMBER void operator()(int64_t block, float* shared) const {
    const TileShape& tiles = in.tiles;
    const AttentionShape& shape = tiles.shape;
    const BlockPlace at = block_place(tiles, shape.num_heads, block);
    const int64_t key_head = at.head / (shape.num_heads / shape.num_kv_heads);
    const HeadOf query = fused_head(shape, in.qkv, at.batch, at.head);
    const HeadOf key = fused_head(shape, in.qkv, at.batch, shape.num_heads + key_head);
    const HeadOf value =
        fused_head(shape, in.qkv, at.batch, shape.num_heads + shape.num_kv_heads + key_head);
    const HeadOf d_out = head_of_output(shape, in.d_out, at.batch, at.head);
    RowSums<kChunks> sums = {};
    RowFacts facts[kOwn];
    for (int i = 0; i < kOwn; ++i) {
      facts[i] = facts_of(in, at.batch, at.head, at.first + own_row(i));
    }
    const int64_t end = at.first + kTile < shape.seq ? at.first + kTile : shape.seq;
    for (int64_t row = at.first; row < end;) {
      const KeyRange keys = keys_of_document(tiles, at.batch, row, end);
      for (int64_t k = keys.first_tile; k < keys.end; k += kTile) {
        TilePart part = multiply_rows(shape, query, at.first, key, k, shared);
        const TilePart d_probs = multiply_rows(shape, d_out, at.first, value, k, shared);
        LOCKSTEP_UNROLL
        for (int i = 0; i < kOwn; ++i) {
          for (int c = 0; c < kOwn; ++c) {
            const bool is_seen = sees(tiles, keys, at.first + own_row(i), k + own_column(c));
            part.at[i][c] =
                is_seen ? gradient_of(in, facts[i], part.at[i][c], d_probs.at[i][c]).gradient
                        : 0.0F;
          }
        }
        store_weights(part, shared);
        add_weighted_rows(shape, key, k, shared, sums);
      }
      row = keys.end;
    }
    LOCKSTEP_UNROLL
    for (int i = 0; i < kOwn; ++i) {
      const int64_t row = at.first + own_row(i);
      if (row >= shape.seq) continue;
      write_row(shape, sums, i, 1.0F, d_qkv, query.begin + row * query.stride);
    }
  }
};

// One block: gradients of 64 keys and their values, over the query heads of their group.
template <int kChunks>
struct KeyTile {
  BackwardInput in;
  float* d_qkv;

  // Probabilities and gradients of the products, by key and query.
  LOCKSTEP_MEMBER void weigh(const BlockPlace& at, int64_t head, int64_t first_query,
                             TilePart& probs, TilePart& gradients) const {
    LOCKSTEP_UNROLL
    for (int c = 0; c < kOwn; ++c) {
      const int64_t row = first_query + own_column(c);
      const RowFacts facts = facts_of(in, at.batch, head, row);
      const bool is_row = row < in.tiles.shape.seq;
      const KeyRange keys = {.document = is_row ? document_begin(in.tiles.shape, at.batch, row) : 0,
                             .first_tile = 0,
                             .end = in.tiles.shape.seq};
      LOCKSTEP_UNROLL
      for (int i = 0; i < kOwn; ++i) {
        const bool is_seen = sees(in.tiles, keys, row, at.first + own_row(i));
        const ScoreGradient both = gradient_of(in, facts, probs.at[i][c], gradients.at[i][c]);
        probs.at[i][c] = is_seen ? both.probability : 0.0F;
        gradients.at[i][c] = is_seen ? both.gradient : 0.0F;
      }
    }
  }

  // Behind the last query row that may see one of the block's keys.
  LOCKSTEP_MEMBER int64_t end_of_queries(const BlockPlace& at) const {
    const AttentionShape& shape = in.tiles.shape;
    int64_t last_key = at.first + kTile - 1;
    if (last_key >= shape.seq) last_key = shape.seq - 1;
    const int64_t limit =
        last_key + in.tiles.window < shape.seq ? last_key + in.tiles.window : shape.seq;
    if (shape.positions == nullptr) return limit;
    int64_t end = last_key + 1;
    while (end < limit && document_begin(shape, at.batch, end) <= last_key) ++end;
    return end;
  }

  LOCKSTEP_MEMBER void operator()(int64_t block, float* shared) const {
    const AttentionShape& shape = in.tiles.shape;
    const BlockPlace at = block_place(in.tiles, shape.num_kv_heads, block);
    const int64_t group = shape.num_heads / shape.num_kv_heads;
    const HeadOf key = fused_head(shape, in.qkv, at.batch, shape.num_heads + at.head);
    const HeadOf value =
        fused_head(shape, in.qkv, at.batch, shape.num_heads + shape.num_kv_heads + at.head);
    const int64_t end = end_of_queries(at);
    RowSums<kChunks> key_sums = {};
    RowSums<kChunks> value_sums = {};
    for (int64_t head = at.head * group; head < (at.head + 1) * group; ++head) {
      const HeadOf query = fused_head(shape, in.qkv, at.batch, head);
      const HeadOf d_out = head_of_output(shape, in.d_out, at.batch, head);
      for (int64_t q = at.first; q < end; q += kTile) {
        TilePart probs = multiply_rows(shape, key, at.first, query, q, shared);
        TilePart gradients = multiply_rows(shape, value, at.first, d_out, q, shared);
        weigh(at, head, q, probs, gradients);
        store_weights(probs, shared);
        add_weighted_rows(shape, d_out, q, shared, value_sums);
        sync_block();  // the weights have been read
        store_weights(gradients, shared);
        add_weighted_rows(shape, query, q, shared, key_sums);
      }
    }
    LOCKSTEP_UNROLL
    for (int i = 0; i < kOwn; ++i) {
      const int64_t row = at.first + own_row(i);
      if (row >= shape.seq) continue;
      write_row(shape, key_sums, i, 1.0F, d_qkv, key.begin + row * key.stride);
      write_row(shape, value_sums, i, 1.0F, d_qkv, value.begin + row * value.stride);
    }
  }
};

void compute_deltas(const AttentionShape& shape, ConstValues out, const float* d_out,
                    float* deltas) {
  for_each_row(
      shape.batch * shape.num_heads * shape.seq, LOCKSTEP_KERNEL(int64_t index) {
        const int64_t head = index / shape.seq;
        const HeadOf rows =
            head_of_output(shape, out, head / shape.num_heads, head % shape.num_heads);
        const int64_t begin = rows.begin + index % shape.seq * rows.stride;
        Vec sums = zero();
        for (int64_t d = lane(); d < shape.head_dim; d += kLanes) {
          sums = fma(Vec{read_value(out, begin + d)}, Vec{d_out[begin + d]}, sums);
        }
        set_once(deltas, index, sum_lanes(sums));
      });
}

template <int kChunks>
void launch_backward(Chunks<kChunks>, const BackwardInput& in, float* d_qkv) {
  const AttentionShape& shape = in.tiles.shape;
  const int64_t tiles = shape.batch * in.tiles.num_tiles;
  launch_blocks(tiles * shape.num_heads, kSharedFloats, QueryTile<kChunks>{in, d_qkv});
  launch_blocks(tiles * shape.num_kv_heads, kSharedFloats, KeyTile<kChunks>{in, d_qkv});
}

}  // namespace

void attention_backward(const AttentionShape& shape, ConstValues qkv, ConstValues out,
                        const float* log_sum_exp, const float* d_out, float* d_qkv,
                        float* scratch) {
  if (shape.batch * shape.seq == 0) return;
  compute_deltas(shape, out, d_out, scratch);
  const BackwardInput in{.tiles = tile_shape(shape),
                         .qkv = qkv,
                         .d_out = d_out,
                         .log_sum_exp = log_sum_exp,
                         .deltas = scratch};
  with_chunks(shape.head_dim, [&](auto chunks) { launch_backward(chunks, in, d_qkv); });
}

}  // namespace lockstep::runtime::LOCKSTEP_ISA

// Where the packed operands of attention lie in its scratch buffer, for one head at a time.
#pragma once

#include <cstdint>

namespace lockstep::runtime {

// Block sizes are part of the arithmetic: changing one changes bits of results.
inline constexpr int64_t kPanelCols = 32;   // columns of a packed panel
inline constexpr int64_t kQueryRows = 8;    // query rows (backward: also key rows) done together
inline constexpr int64_t kQueryBlock = 64;  // query rows of a block of backward; divisible by 8

// Offsets in elements, each a multiple of 16 so that a panel's rows start on cache lines.
struct AttentionLayout {
  int64_t keys_by_dim = 0;    // [T/32][D][32]: K transposed, panels of 32 keys
  int64_t values_by_dim = 0;  // the same of V; backward only
  int64_t rows_by_key = 0;    // [D/32][T][32]: V in forward, K in backward, panels of 32 dims
  int64_t probs = 0;          // [64][score_stride]
  int64_t d_scores = 0;       // [64][score_stride]
  int64_t query_rows = 0;     // [D/32][64][32]
  int64_t d_out_rows = 0;     // [D/32][64][32]
  int64_t d_keys = 0;         // [T][D rounded up to 32]
  int64_t d_values = 0;       // [T][D rounded up to 32]
  int64_t score_stride = 0;   // T rounded up, plus 16: no two rows share a cache set
  int64_t padded_dim = 0;     // D rounded up to 32
  int64_t num_elems = 0;      // of the parts above, with room to align their start
  // One head of rows that are stored in 16 bits, as floats.
  int64_t wide_query = 0;           // [T][D]
  int64_t wide_key = 0;             // [T][D]
  int64_t wide_value = 0;           // [T][D]
  int64_t wide_out = 0;             // [T][D]
  int64_t num_elems_with_wide = 0;  // of the whole
};

// Not `constexpr` in a header of shared inline code: each user gets a copy of its own (see
// Note [One source, four instruction sets]).
static inline __attribute__((always_inline)) AttentionLayout attention_layout(int64_t seq,
                                                                              int64_t head_dim) {
  const int64_t padded_seq = (seq + kPanelCols - 1) / kPanelCols * kPanelCols;
  AttentionLayout layout;
  layout.padded_dim = (head_dim + kPanelCols - 1) / kPanelCols * kPanelCols;
  layout.score_stride = padded_seq + 16;
  const int64_t by_dim = padded_seq * head_dim;
  const int64_t by_key = seq * layout.padded_dim;
  const int64_t scores = kQueryBlock * layout.score_stride;
  const int64_t block = kQueryBlock * layout.padded_dim;
  layout.values_by_dim = layout.keys_by_dim + by_dim;
  layout.rows_by_key = layout.values_by_dim + by_dim;
  layout.probs = layout.rows_by_key + by_key;
  layout.d_scores = layout.probs + scores;
  layout.query_rows = layout.d_scores + scores;
  layout.d_out_rows = layout.query_rows + block;
  layout.d_keys = layout.d_out_rows + block;
  layout.d_values = layout.d_keys + by_key;
  layout.num_elems = layout.d_values + by_key + 16;
  const int64_t wide = (seq * head_dim + 15) / 16 * 16;
  layout.wide_query = layout.num_elems - 16;
  layout.wide_key = layout.wide_query + wide;
  layout.wide_value = layout.wide_key + wide;
  layout.wide_out = layout.wide_value + wide;
  layout.num_elems_with_wide = layout.wide_out + wide + 16;
  return layout;
}

// Where keys and values of a key/value head lie in a cache, see Note [Keys and values of earlier
// rows].
struct AttentionCacheLayout {
  int64_t padded_rows = 0;   // capacity rounded up to 32
  int64_t rows_by_key = 0;   // V; K lies before it
  int64_t num_elems = 0;     // of a head
  int64_t score_stride = 0;  // of the scratch: [8][score_stride], then log_sum_exp of all rows
};

static inline __attribute__((always_inline)) AttentionCacheLayout attention_cache_layout(
    int64_t capacity, int64_t head_dim) {
  const int64_t padded_dim = (head_dim + kPanelCols - 1) / kPanelCols * kPanelCols;
  AttentionCacheLayout layout;
  layout.padded_rows = (capacity + kPanelCols - 1) / kPanelCols * kPanelCols;
  layout.rows_by_key = layout.padded_rows * head_dim;
  layout.num_elems = layout.rows_by_key + layout.padded_rows * padded_dim;
  layout.score_stride = layout.padded_rows + 16;
  return layout;
}

}  // namespace lockstep::runtime

// Where the parts of a decoder layer's buffers lie: the layer computes by it, the memory estimate
// counts by it. A part that a family has no use for is empty.
#pragma once

#include <cstdint>

#include "runtime/common/dtype.h"
#include "runtime/common/lora.h"
#include "runtime/common/model_config.h"

namespace lockstep::common {

// Shapes: R rows (batch * time), C channels, H query heads, G key/value heads, D head size,
// F feed-forward size, U rows of the feed-forward part's first product: 2F, or F without a gate.
struct LayerLayout {
  // Note [What a layer saves]
  // A float out of a product over C channels costs 2C operations, whichever the product: keeping q,
  // k, v, x_mid or gate_up buys the same time per byte. One out of attention costs 2T, at a third
  // of a product's speed, so at equal T and C three times as much: it is the dear part, a tenth of
  // the whole. The two normed inputs and the activation of the feed-forward part are kept by
  // nobody: backward recomputes them in passes that are cheap beside the products.

  // Offsets in BlockBuffers::dear. "Typed" parts, here and below, hold numbers of the block's type.
  struct Dear {
    int64_t attention = 0;    // [R, H*D], typed
    int64_t log_sum_exp = 0;  // [B, H, T]
    int64_t num_elems = 0;
  } dear;

  // Offsets in BlockBuffers::cheap. Statistics of a norm: [R], LayerNorm [2, R].
  struct Cheap {
    int64_t stats1 = 0;
    int64_t qkv = 0;             // [R, (H+2G)*D], typed, after rotary
    int64_t raw_queries = 0;     // [R, H*D] before their norm
    int64_t raw_keys = 0;        // [R, G*D]
    int64_t query_stats = 0;     // [R, H] by head, else [R]
    int64_t key_stats = 0;       // [R, G] or [R]
    int64_t attention_part = 0;  // [R, C] what a norm after attention norms
    int64_t attention_stats = 0;
    int64_t x_mid = 0;  // [R, C], after the attention's residual
    int64_t stats2 = 0;
    int64_t probabilities = 0;  // of E experts: [R, E]
    // Of experts: their Routing, as int32 but for the weights. P pairs of a token and an expert
    // that it takes.
    int64_t expert_begins = 0;  // [E + 1]
    int64_t pair_rows = 0;      // [P]
    int64_t pair_weights = 0;   // [P]
    int64_t choices = 0;        // [P]
    int64_t choice_pairs = 0;   // [P]
    // [R, U], typed; backward puts its gradient here. Of experts, here and below, P rows for R.
    int64_t gate_up = 0;
    int64_t mlp_part = 0;  // [R, C] what a norm after feed-forward norms
    int64_t mlp_stats = 0;
    int64_t num_elems = 0;
  } cheap;

  // Offsets in BlockBuffers::scratch. The two halves of a layer run one after the other and share
  // the space behind the parts of both.
  struct Scratch {
    int64_t normed = 0;      // [R, C], typed
    int64_t d_normed = 0;    // [R, C]
    int64_t d_residual = 0;  // [R, C], typed: the gradient that comes in, as an operand
    int64_t part = 0;        // [R, C] what a half adds to the stream, and its gradient
    int64_t wide = 0;        // widened weights of a norm, a bias or a row
    // Of adapters of rank r, one module at a time; M is the largest input of an adapted module.
    int64_t low = 0;             // [R, r]: out of A, and its gradient
    int64_t low_operand = 0;     // [R, r], typed; in fp32 low
    int64_t dropped = 0;         // with dropout: [R, M], typed
    int64_t d_dropped = 0;       // with dropout: [R, M]
    int64_t d_attention = 0;     // [R, H*D]
    int64_t wide_qkv = 0;        // [R, (H+2G)*D]: the product before it is rounded; its gradient
    int64_t heads = 0;           // [R, H*D] normed queries or keys, and their gradient
    int64_t attention_work = 0;  // as attention_scratch_elems() says
    int64_t wide_gate_up = 0;    // [R, U]: the product before it is rounded; nothing in fp32
    int64_t act = 0;             // [R, F], typed
    int64_t d_act = 0;           // [R, F]
    int64_t pairs_in = 0;        // of experts: [P, C], typed
    int64_t d_pairs = 0;         // of experts: [P, C], typed; in fp32 wide_pairs
    int64_t wide_pairs = 0;      // of experts: [P, C]
    int64_t d_logits = 0;        // of experts: [R, E], typed; in fp32 wide_logits
    int64_t wide_logits = 0;     // of experts: [R, E]
    int64_t d_weights = 0;       // of experts: [P]
    int64_t num_elems = 0;
  } scratch;
};

// The layout for micro-batches of `batch` sequences of `seq` tokens.
//   attention_work: floats that the attention kernels need for one head.
LayerLayout lay_out_layer(const ModelConfig& config, int64_t batch, int64_t seq, DType dtype,
                          int64_t attention_work, const LoraConfig& lora = {});

// Whether what a half adds to the stream takes more than the product that ends it.
bool has_separate_parts(const ModelConfig& config);

}  // namespace lockstep::common

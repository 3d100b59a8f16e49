// How much arithmetic a token costs, by the convention that published utilisations use.
#pragma once

#include <cstdint>

#include "runtime/common/train_config.h"

namespace lockstep::runtime {

// Model FLOPs of forward and backward per token: 6 N + 12 A (sum over layers of T).
//   N: weights that a token is multiplied with: all but an embedding that is only looked up (one
//      that is tied to the head is multiplied there)
//   A: width of attention, num_attention_heads * head_dim
//   T: tokens of a sequence, at most the layer's window
// Causal masks are not halved, documents of a packed sequence count as if they saw each other,
// frozen units as if they were trained, and what activation checkpointing computes again does not
// count, so that the figures compare with others'. Source: PaLM, arXiv:2204.02311, appendix B.
double model_flops_per_token(const common::ModelConfig& model, int64_t sequence_length);

}  // namespace lockstep::runtime

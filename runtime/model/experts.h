// A feed-forward part of several experts, of which each token takes a few (mixture of experts).
// Shapes: R rows, C channels, F feed-forward size, E experts, K experts of a token, P = R * K pairs
// of a row and an expert, sorted by expert and then by row.
// Source: Transformers, MixtralSparseMoeBlock and Qwen3MoeSparseMoeBlock.
#pragma once

#include <cstdint>

#include "runtime/kernels/typed_values.h"
#include "runtime/model/linear.h"

namespace lockstep::runtime {

struct ExpertsShape {
  int64_t rows = 0;         // R
  int64_t hidden = 0;       // C
  int64_t ff = 0;           // F
  int64_t num_experts = 0;  // E
  int64_t per_token = 0;    // K
  bool norms_top = true;    // the weights of a token's experts add up to 1

  int64_t pairs() const { return rows * per_token; }
  int64_t expert_elems() const { return 3 * ff * hidden; }  // gate, up and down of one expert
};

// Which rows go to which expert: a function of the row's probabilities alone, so of the
// micro-batch, whatever the ranks. Of equal probabilities the expert with the lower index comes
// first. In borrowed memory.
struct Routing {
  int32_t* begins = nullptr;   // [E + 1] an expert's first pair
  int32_t* row_of = nullptr;   // [P]
  float* weight_of = nullptr;  // [P]
  int32_t* experts = nullptr;  // [R, K] by falling probability
  int32_t* pair_of = nullptr;  // [R, K] the pair of that choice
};

// Writes all of `routing` from probabilities [R, E]. Not-a-numbers among them leave it valid.
void route(const ExpertsShape& shape, const float* probabilities, const Routing& routing);

// Buffers of one call; "typed" as the operands.
struct ExpertBuffers {
  float* probabilities = nullptr;  // [R, E], saved for backward
  Routing routing;                 // saved
  Values gate_up;                  // [P, 2F], typed, saved; backward puts its gradient here
  float* wide_gate_up = nullptr;   // [P, 2F] floats; the same as gate_up in fp32
  Values pairs_in;                 // [P, C], typed
  Values d_pairs;                  // [P, C], typed
  float* wide_pairs = nullptr;     // [P, C]
  Values act;                      // [P, F], typed
  float* d_act = nullptr;          // [P, F]
  Values d_logits;                 // [R, E], typed
  float* wide_logits = nullptr;    // [R, E]
  float* d_weights = nullptr;      // [P]
};

// Weights of the router, [E, C], and of the first expert: gate [F, C], up [F, C], down [C, F]; the
// others follow.
struct ExpertWeights {
  ConstValues router;
  ConstValues first;
};
// The same of gradients, fp32; null where the unit is frozen.
struct ExpertGradients {
  float* router = nullptr;
  float* first = nullptr;
};

// part = sum over the row's experts of weight * expert(in).
//   in: [R, C], typed; part: [R, C], written.
void experts_forward(const ExpertsShape& shape, ConstValues in, const ExpertWeights& weights,
                     const ExpertBuffers& buffers, float* part);

// Gradients from dy, that of part: of the weights, all of which are written (zeros for an expert
// without a row), and of the input.
//   d_in: [R, C], written. buffers: what is saved as experts_forward() left it.
void experts_backward(const ExpertsShape& shape, ConstValues in, const ExpertWeights& weights,
                      const ExpertBuffers& buffers, const float* dy,
                      const ExpertGradients& gradients, float* d_in);

}  // namespace lockstep::runtime

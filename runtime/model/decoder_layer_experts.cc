// The half of a layer whose feed-forward part is one of experts. Shapes as in experts.h.
#include "runtime/model/decoder_layer.h"

namespace lockstep::runtime {

using common::TensorRole;

ExpertsShape DecoderLayer::experts_shape(const Run& run) const {
  return {.rows = run.rows,
          .hidden = config_.hidden_size,
          .ff = config_.feed_forward_size(),
          .num_experts = config_.num_experts,
          .per_token = config_.experts_per_token,
          .norms_top = config_.norm_topk_prob};
}

ExpertBuffers DecoderLayer::expert_buffers(const Run& run) const {
  float* const cheap = run.buffers.cheap;
  float* const scratch = run.buffers.scratch;
  const common::LayerLayout::Scratch& temp = run.layout.scratch;
  const common::LayerLayout::Cheap& saved = run.layout.cheap;
  float* const gate_up = cheap + saved.gate_up;
  const auto indices = [cheap](int64_t begin) { return reinterpret_cast<int32_t*>(cheap + begin); };
  return {.probabilities = cheap + saved.probabilities,
          .routing = {.begins = indices(saved.expert_begins),
                      .row_of = indices(saved.pair_rows),
                      .weight_of = cheap + saved.pair_weights,
                      .experts = indices(saved.choices),
                      .pair_of = indices(saved.choice_pairs)},
          .gate_up = typed(gate_up),
          .wide_gate_up = is_mixed() ? scratch + temp.wide_gate_up : gate_up,
          .pairs_in = typed(scratch + temp.pairs_in),
          .d_pairs = typed(scratch + temp.d_pairs),
          .wide_pairs = scratch + temp.wide_pairs,
          .act = typed(scratch + temp.act),
          .d_act = scratch + temp.d_act,
          .d_logits = typed(scratch + temp.d_logits),
          .wide_logits = scratch + temp.wide_logits,
          .d_weights = scratch + temp.d_weights};
}

ExpertWeights DecoderLayer::expert_weights(const Run& run) const {
  return {.router = run.params.from(offset_of(TensorRole::kRouter)),
          .first = run.params.from(offset_of(TensorRole::kGateUp))};
}

// Leaves what the half adds to the stream in the scratch, as make_part() does.
void DecoderLayer::experts_half(const Run& run) const {
  const ConstValues in = input_of(run, mlp_half(), run.buffers.cheap + run.layout.cheap.x_mid,
                                  run.buffers.cheap + run.layout.cheap.stats2);
  experts_forward(experts_shape(run), in, expert_weights(run), expert_buffers(run),
                  run.buffers.scratch + run.layout.scratch.part);
}

// Leaves the gradient of x_mid in buffers.dx.
void DecoderLayer::experts_half_backward(const Run& run) const {
  const BlockBuffers& buffers = run.buffers;
  const Half half = mlp_half();
  const float* const x_mid = buffers.cheap + run.layout.cheap.x_mid;
  float* const stats = buffers.cheap + run.layout.cheap.stats2;
  float* const d_normed = buffers.scratch + run.layout.scratch.d_normed;
  const ConstValues in = input_of(run, half, x_mid, stats);
  experts_backward(experts_shape(run), in, expert_weights(run), expert_buffers(run), buffers.dy,
                   {.router = at(run.gradients, offset_of(TensorRole::kRouter)),
                    .first = at(run.gradients, half.first)},
                   d_normed);
  norm_.backward(run.rows, x_mid, run.params.from(half.norm), stats, d_normed, buffers.dy,
                 buffers.dx, at(run.gradients, half.norm),
                 buffers.scratch + run.layout.scratch.wide);
}

}  // namespace lockstep::runtime

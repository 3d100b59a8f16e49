// Shapes as in decoder_layer.cc.
#include <algorithm>

#include "runtime/kernels/attention.h"
#include "runtime/kernels/device.h"
#include "runtime/kernels/elementwise.h"
#include "runtime/model/decoder_layer.h"
#include "runtime/model/layer_shapes.h"

namespace lockstep::runtime {

using common::LayerLayout;

void DecoderLayer::backward(const BatchShape& shape, ConstValues params, MicroBatchIo& io,
                            const BlockBuffers& buffers, float* gradients) const {
  const Run run = run_of(shape, params, io, buffers, gradients);
  if (config_.has_experts()) {
    experts_half_backward(run);
  } else {
    mlp_half_backward(run);
  }
  attention_half_backward(run, io);
}

const float* DecoderLayer::part_gradient(const Run& run, const Half& half, const LinearShape& shape,
                                         const float* saved_part, const float* stats,
                                         const float* dy) const {
  float* const part = run.buffers.scratch + run.layout.scratch.part;
  float* const wide = run.buffers.scratch + run.layout.scratch.wide;
  const float* d = dy;
  if (config_.residual_multiplier != 1) {
    scale(run.rows * config_.hidden_size, static_cast<float>(config_.residual_multiplier), d, part);
    d = part;
  }
  if (half.norm_after >= 0) {
    norm_.backward(run.rows, saved_part, run.params.from(half.norm_after), stats, d, nullptr, part,
                   at(run.gradients, half.norm_after), wide);
    d = part;
  }
  if (half.last_bias >= 0) bias_gradient(shape, d, at(run.gradients, half.last_bias));
  return d;
}

void DecoderLayer::begin_half_backward(const Run& run, const Half& half, const LinearShape& shape,
                                       ConstValues d, const float* x, float* stats, const float* dy,
                                       float* dx) const {
  float* const d_normed = run.buffers.scratch + run.layout.scratch.d_normed;
  float* const wide = run.buffers.scratch + run.layout.scratch.wide;
  const ConstValues in = input_of(run, half, x, stats);
  linear_weight_gradient(shape, d, in, at(run.gradients, half.first));
  linear_input_gradient(shape, d, run.params.from(half.first), d_normed);
  adapters_.backward(half.first_role, adapter_call(run), in, d, shape.out, d_normed);
  if (half.norm >= 0) {
    norm_.backward(run.rows, x, run.params.from(half.norm), stats, d_normed, dy, dx,
                   at(run.gradients, half.norm), wide);
    return;
  }
  const int64_t stream = run.rows * config_.hidden_size;
  if (dx != dy) copy_floats(stream, dy, dx);
  add_in_place(stream, d_normed, dx);
}

// Leaves the gradient of x_mid in buffers.dx.
void DecoderLayer::mlp_half_backward(const Run& run) const {
  const BlockBuffers& buffers = run.buffers;
  const LayerLayout::Cheap& cheap = run.layout.cheap;
  const LayerLayout::Scratch& temp = run.layout.scratch;
  const int64_t ff = config_.feed_forward_size();
  const Half half = mlp_half();
  const LinearShape last = mlp_end(run);
  const LinearShape first =
      product(run, config_.hidden_size, common::feed_forward_rows(family_, config_));
  const Values gate_up = typed(buffers.cheap + cheap.gate_up);
  const Values act = typed(buffers.scratch + temp.act);
  float* const d_act = buffers.scratch + temp.d_act;
  const float* const d_part = part_gradient(run, half, last, buffers.cheap + cheap.mlp_part,
                                            buffers.cheap + cheap.mlp_stats, buffers.dy);
  const ConstValues dy =
      operand(run.rows * config_.hidden_size, d_part, buffers.scratch + temp.d_residual);

  linear_input_gradient(last, dy, run.params.from(half.last), d_act);
  if (adapters_.has(half.last_role)) {
    activate(run);  // the next kernel makes it too, but wants all of its gradient
    adapters_.backward(half.last_role, adapter_call(run), act, dy, last.out, d_act);
  }
  const Values d_gate_up = gate_up;
  if (!family_.is_gated) {
    gelu_backward(gelu(), run.rows * ff, gate_up, d_act, d_gate_up, act);
  } else if (family_.activation == common::Activation::kSilu) {
    swiglu_backward(run.rows, ff, gate_up, d_act, d_gate_up, act);
  } else {
    geglu_backward(gelu(), run.rows, ff, gate_up, d_act, d_gate_up, act);
  }
  linear_weight_gradient(last, dy, act, at(run.gradients, half.last));
  if (half.first_bias >= 0) {
    bias_gradient(first, d_gate_up, at(run.gradients, half.first_bias));
  }
  begin_half_backward(run, half, first, d_gate_up, buffers.cheap + cheap.x_mid,
                      buffers.cheap + cheap.stats2, buffers.dy, buffers.dx);
}

void DecoderLayer::norm_heads_backward(const Run& run, float* d_qkv) const {
  if (family_.qk_norm == common::QkNorm::kNone) return;
  float* const d_heads = run.buffers.scratch + run.layout.scratch.heads;
  const int64_t row_elems = attention_shape(config_, run.shape).qkv_row_elems();
  for (const HeadRows& heads : head_rows(run)) {
    const int64_t width = heads.num_heads * config_.head_dim;
    const int64_t norms = is_by_head() ? run.rows * heads.num_heads : run.rows;
    copy_columns(run.rows, width, d_qkv + heads.begin, row_elems, d_heads, width);
    head_norm(heads).backward(norms, heads.raw, run.params.from(heads.weight), heads.stats, d_heads,
                              nullptr, d_heads, at(run.gradients, heads.weight),
                              run.buffers.scratch + run.layout.scratch.wide);
    copy_columns(run.rows, width, d_heads, width, d_qkv + heads.begin, row_elems);
  }
}

// Takes the gradient of x_mid from buffers.dx and leaves that of x there.
void DecoderLayer::attention_half_backward(const Run& run, const MicroBatchIo& io) const {
  const BlockBuffers& buffers = run.buffers;
  const LayerLayout::Cheap& cheap = run.layout.cheap;
  const LayerLayout::Scratch& temp = run.layout.scratch;
  const Half half = attention_half();
  const AttentionShape heads =
      attention_shape(config_, run.shape, window_, io.on_device().positions);
  const LinearShape last = attention_end(run);
  const LinearShape first = product(run, config_.hidden_size, heads.qkv_row_elems());
  const ConstValues attention = typed(buffers.dear + run.layout.dear.attention);
  float* const d_attention = buffers.scratch + temp.d_attention;
  float* const wide_d_qkv = buffers.scratch + temp.wide_qkv;
  float* const d_mid = buffers.dx;
  const float* const d_part = part_gradient(run, half, last, buffers.cheap + cheap.attention_part,
                                            buffers.cheap + cheap.attention_stats, d_mid);
  const ConstValues dy =
      operand(run.rows * config_.hidden_size, d_part, buffers.scratch + temp.d_residual);

  linear_weight_gradient(last, dy, attention, at(run.gradients, half.last));
  linear_input_gradient(last, dy, run.params.from(half.last), d_attention);
  adapters_.backward(half.last_role, adapter_call(run), attention, dy, last.out, d_attention);
  attention_backward(heads, typed(buffers.cheap + cheap.qkv), attention,
                     buffers.dear + run.layout.dear.log_sum_exp, d_attention, wide_d_qkv,
                     buffers.scratch + temp.attention_work);
  if (!rotary_table_.empty()) {
    rotary_backward(rotary_shape(config_, run.shape, heads.positions), rotary_table_.data(),
                    wide_d_qkv);
  }
  norm_heads_backward(run, wide_d_qkv);
  if (half.first_bias >= 0) {
    bias_gradient(first, wide_d_qkv, at(run.gradients, half.first_bias));
  }
  const ConstValues d_qkv = operand(run.rows * first.out, wide_d_qkv, wide_d_qkv);
  begin_half_backward(run, half, first, d_qkv, buffers.x, buffers.cheap + cheap.stats1, d_mid,
                      buffers.dx);
}

}  // namespace lockstep::runtime

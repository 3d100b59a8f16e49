// Shapes: R rows (batch * time), C channels, H query heads, G key/value heads, D head size,
// F feed-forward size.
#include "runtime/model/decoder_layer.h"

#include <algorithm>
#include <cassert>

#include "runtime/kernels/attention.h"
#include "runtime/kernels/elementwise.h"
#include "runtime/model/layout.h"
#include "runtime/model/linear.h"

namespace lockstep::runtime {
namespace {

AttentionShape attention_shape(const common::ModelConfig& config, const BatchShape& shape,
                               const int32_t* positions = nullptr) {
  return {.batch = shape.batch,
          .seq = shape.seq,
          .num_heads = config.num_attention_heads,
          .num_kv_heads = config.num_key_value_heads,
          .head_dim = config.head_dim,
          .positions = positions};
}

RotaryShape rotary_shape(const common::ModelConfig& config, const BatchShape& shape,
                         const int32_t* positions) {
  return {.batch = shape.batch,
          .seq = shape.seq,
          .num_heads = config.num_attention_heads + config.num_key_value_heads,
          .head_dim = config.head_dim,
          .row_elems = attention_shape(config, shape).qkv_row_elems(),
          .positions = positions};
}

// The four products of a layer.
struct Products {
  LinearShape qkv, attention_out, gate_up, down;
};

Products products(const common::ModelConfig& config, const BatchShape& shape) {
  const int64_t rows = shape.rows();
  const int64_t hidden = config.hidden_size;
  const int64_t ff = config.intermediate_size;
  return {.qkv = {rows, hidden, attention_shape(config, shape).qkv_row_elems()},
          .attention_out = {rows, config.num_attention_heads * config.head_dim, hidden},
          .gate_up = {rows, hidden, 2 * ff},
          .down = {rows, ff, hidden}};
}

}  // namespace

// Note [What a layer saves]
// A float out of a product over C channels costs 2C operations, whichever the product: keeping q,
// k, v, x_mid or gate_up buys the same time per byte. One out of attention costs 2T, at a third of
// a product's speed, so at equal T and C three times as much: it is the dear part, a tenth of the
// whole. The two normed inputs and the activation of the feed-forward part are kept by nobody:
// backward recomputes them in passes that are cheap beside the products.

// Offsets in BlockBuffers::dear. "Typed" parts, here and below, hold numbers of the block's type.
struct DecoderLayer::Dear {
  int64_t attention = 0;    // [R, H*D], typed
  int64_t log_sum_exp = 0;  // [B, H, T]
  int64_t num_elems = 0;
};

// Offsets in BlockBuffers::cheap.
struct DecoderLayer::Cheap {
  int64_t rstd1 = 0;    // [R]
  int64_t qkv = 0;      // [R, (H+2G)*D], typed, after rotary
  int64_t x_mid = 0;    // [R, C], after the attention's residual
  int64_t rstd2 = 0;    // [R]
  int64_t gate_up = 0;  // [R, 2F], typed; backward puts its gradient here
  int64_t num_elems = 0;
};

// Offsets in BlockBuffers::scratch. The two halves of a layer run one after the other and share the
// space behind `d_normed`.
struct DecoderLayer::Scratch {
  int64_t normed = 0;          // [R, C], typed
  int64_t d_normed = 0;        // [R, C]
  int64_t d_residual = 0;      // [R, C], typed: the gradient that comes in, as an operand
  int64_t d_attention = 0;     // [R, H*D]
  int64_t wide_qkv = 0;        // [R, (H+2G)*D]: the product before it is rounded; its gradient
  int64_t attention_work = 0;  // as attention_scratch_elems() says
  int64_t wide_gate_up = 0;    // [R, 2F]: the product before it is rounded; nothing in fp32
  int64_t act = 0;             // [R, F], typed
  int64_t d_act = 0;           // [R, F]
  int64_t num_elems = 0;
};

// Offsets in the unit, the same for weights and gradients.
struct DecoderLayer::Weights {
  int64_t norm1 = 0, qkv = 0, attention_out = 0, norm2 = 0, gate_up = 0, down = 0;
};

DecoderLayer::DecoderLayer(const common::ModelConfig& config, int64_t index,
                           std::span<const float> rotary_table, DType dtype)
    : config_(config),
      rotary_table_(rotary_table),
      dtype_(dtype),
      unit_(layer_unit(config, index)) {}

DecoderLayer::Dear DecoderLayer::dear_layout(const BatchShape& shape) const {
  const int64_t elems = shape.rows() * config_.num_attention_heads;
  Layout layout;
  Dear dear;
  dear.attention = layout.take(elems * config_.head_dim, dtype_);
  dear.log_sum_exp = layout.take(elems);
  dear.num_elems = layout.num_elems();
  return dear;
}

DecoderLayer::Cheap DecoderLayer::cheap_layout(const BatchShape& shape) const {
  const int64_t rows = shape.rows();
  Layout layout;
  Cheap cheap;
  cheap.rstd1 = layout.take(rows);
  cheap.qkv = layout.take(rows * attention_shape(config_, shape).qkv_row_elems(), dtype_);
  cheap.x_mid = layout.take(rows * config_.hidden_size);
  cheap.rstd2 = layout.take(rows);
  cheap.gate_up = layout.take(rows * 2 * config_.intermediate_size, dtype_);
  cheap.num_elems = layout.num_elems();
  return cheap;
}

DecoderLayer::Scratch DecoderLayer::scratch_layout(const BatchShape& shape) const {
  const int64_t rows = shape.rows();
  const AttentionShape attention = attention_shape(config_, shape);
  const bool is_mixed = dtype_ != DType::kFp32;
  Scratch scratch;
  Layout common_part;
  scratch.normed = common_part.take(rows * config_.hidden_size, dtype_);
  scratch.d_normed = common_part.take(rows * config_.hidden_size);
  if (is_mixed) scratch.d_residual = common_part.take(rows * config_.hidden_size, dtype_);

  Layout attention_half = common_part;
  scratch.d_attention = attention_half.take(rows * attention.num_heads * attention.head_dim);
  scratch.wide_qkv = attention_half.take(rows * attention.qkv_row_elems());
  scratch.attention_work = attention_half.take(attention_scratch_elems(attention, dtype_));

  Layout mlp_half = common_part;
  if (is_mixed) scratch.wide_gate_up = mlp_half.take(rows * 2 * config_.intermediate_size);
  scratch.act = mlp_half.take(rows * config_.intermediate_size, dtype_);
  scratch.d_act = mlp_half.take(rows * config_.intermediate_size);
  scratch.num_elems = std::max(attention_half.num_elems(), mlp_half.num_elems());
  return scratch;
}

DecoderLayer::Weights DecoderLayer::weight_offsets() const {
  const std::vector<UnitTensor>& t = unit_.tensors;  // in the order of layer_unit()
  return {.norm1 = t[0].begin_elem,
          .qkv = t[1].begin_elem,
          .attention_out = t[4].begin_elem,
          .norm2 = t[5].begin_elem,
          .gate_up = t[6].begin_elem,
          .down = t[8].begin_elem};
}

SavedElems DecoderLayer::saved_elems(const BatchShape& shape) const {
  return {.dear = dear_layout(shape).num_elems, .cheap = cheap_layout(shape).num_elems};
}

int64_t DecoderLayer::scratch_elems(const BatchShape& shape) const {
  return scratch_layout(shape).num_elems;
}

ConstValues DecoderLayer::operand(int64_t n, const float* floats, float* part) const {
  if (dtype_ == DType::kFp32) return floats;
  narrow(n, floats, typed(part));
  return typed(part);
}

void DecoderLayer::forward(const BatchShape& shape, ConstValues params, MicroBatchIo& io,
                           const BlockBuffers& buffers) const {
  recompute(shape, params, io, buffers, Recompute::kAll);
  const Cheap cheap = cheap_layout(shape);
  const Values act = typed(buffers.scratch + scratch_layout(shape).act);
  swiglu_forward(shape.rows(), config_.intermediate_size, typed(buffers.cheap + cheap.gate_up),
                 act);
  std::copy_n(buffers.cheap + cheap.x_mid, shape.rows() * config_.hidden_size, buffers.y);
  linear_forward_add(products(config_, shape).down, act, params.from(weight_offsets().down),
                     buffers.y);
}

void DecoderLayer::recompute(const BatchShape& shape, ConstValues params, const MicroBatchIo& io,
                             const BlockBuffers& buffers, Recompute what) const {
  assert(shape.seq * config_.head_dim <= static_cast<int64_t>(rotary_table_.size()));
  const int64_t rows = shape.rows();
  const int64_t hidden = config_.hidden_size;
  const float eps = static_cast<float>(config_.rms_norm_eps);
  const Products product = products(config_, shape);
  const Weights weight = weight_offsets();
  const Dear dear = dear_layout(shape);
  const Cheap cheap = cheap_layout(shape);
  const Scratch temp = scratch_layout(shape);
  float* const scratch = buffers.scratch;
  const Values normed = typed(scratch + temp.normed);
  const Values qkv = typed(buffers.cheap + cheap.qkv);
  const Values attention = typed(buffers.dear + dear.attention);
  const Values gate_up = typed(buffers.cheap + cheap.gate_up);
  float* const x_mid = buffers.cheap + cheap.x_mid;
  // In fp32 these products are kept as they are; else they are rounded into place.
  const bool is_mixed = dtype_ != DType::kFp32;
  float* const wide_qkv = is_mixed ? scratch + temp.wide_qkv : buffers.cheap + cheap.qkv;
  float* const wide_gate_up =
      is_mixed ? scratch + temp.wide_gate_up : buffers.cheap + cheap.gate_up;

  rms_norm_forward(rows, hidden, eps, buffers.x, params.from(weight.norm1), normed,
                   buffers.cheap + cheap.rstd1);
  linear_forward(product.qkv, normed, params.from(weight.qkv), wide_qkv);
  rotary_forward(rotary_shape(config_, shape, io.positions), rotary_table_.data(), wide_qkv);
  if (is_mixed) narrow(rows * product.qkv.out, wide_qkv, qkv);
  if (what == Recompute::kAll) {
    attention_forward(attention_shape(config_, shape, io.positions), qkv, attention,
                      buffers.dear + dear.log_sum_exp, scratch + temp.attention_work);
  }
  std::copy_n(buffers.x, rows * hidden, x_mid);
  linear_forward_add(product.attention_out, attention, params.from(weight.attention_out), x_mid);

  rms_norm_forward(rows, hidden, eps, x_mid, params.from(weight.norm2), normed,
                   buffers.cheap + cheap.rstd2);
  linear_forward(product.gate_up, normed, params.from(weight.gate_up), wide_gate_up);
  if (is_mixed) narrow(rows * product.gate_up.out, wide_gate_up, gate_up);
}

void DecoderLayer::backward(const BatchShape& shape, ConstValues params, MicroBatchIo& io,
                            const BlockBuffers& buffers, float* gradients) const {
  mlp_half_backward(shape, params, buffers, gradients);
  attention_half_backward(shape, params, io, buffers, gradients);
}

// Leaves the gradient of x_mid in buffers.dx.
void DecoderLayer::mlp_half_backward(const BatchShape& shape, ConstValues params,
                                     const BlockBuffers& buffers, float* gradients) const {
  const int64_t rows = shape.rows();
  const int64_t hidden = config_.hidden_size;
  const Products product = products(config_, shape);
  const Weights weight = weight_offsets();
  const Cheap cheap = cheap_layout(shape);
  const Scratch temp = scratch_layout(shape);
  const float* const x_mid = buffers.cheap + cheap.x_mid;
  float* const rstd2 = buffers.cheap + cheap.rstd2;
  const Values gate_up = typed(buffers.cheap + cheap.gate_up);
  const Values normed = typed(buffers.scratch + temp.normed);
  float* const d_normed = buffers.scratch + temp.d_normed;
  const Values act = typed(buffers.scratch + temp.act);
  float* const d_act = buffers.scratch + temp.d_act;
  const ConstValues dy = operand(rows * hidden, buffers.dy, buffers.scratch + temp.d_residual);

  linear_input_gradient(product.down, dy, params.from(weight.down), d_act);
  const Values d_gate_up = gate_up;
  swiglu_backward(rows, config_.intermediate_size, gate_up, d_act, d_gate_up, act);
  linear_weight_gradient(product.down, dy, act, at(gradients, weight.down));

  rms_norm_forward(rows, hidden, static_cast<float>(config_.rms_norm_eps), x_mid,
                   params.from(weight.norm2), normed, rstd2);
  linear_weight_gradient(product.gate_up, d_gate_up, normed, at(gradients, weight.gate_up));
  linear_input_gradient(product.gate_up, d_gate_up, params.from(weight.gate_up), d_normed);
  rms_norm_backward(rows, hidden, x_mid, params.from(weight.norm2), rstd2, d_normed, buffers.dy,
                    buffers.dx, at(gradients, weight.norm2));
}

// Takes the gradient of x_mid from buffers.dx and leaves that of x there.
void DecoderLayer::attention_half_backward(const BatchShape& shape, ConstValues params,
                                           const MicroBatchIo& io, const BlockBuffers& buffers,
                                           float* gradients) const {
  const int64_t rows = shape.rows();
  const int64_t hidden = config_.hidden_size;
  const Products product = products(config_, shape);
  const Weights weight = weight_offsets();
  const Dear dear = dear_layout(shape);
  const Cheap cheap = cheap_layout(shape);
  const Scratch temp = scratch_layout(shape);
  const ConstValues attention = typed(buffers.dear + dear.attention);
  float* const rstd1 = buffers.cheap + cheap.rstd1;
  const Values normed = typed(buffers.scratch + temp.normed);
  float* const d_normed = buffers.scratch + temp.d_normed;
  float* const d_attention = buffers.scratch + temp.d_attention;
  float* const wide_d_qkv = buffers.scratch + temp.wide_qkv;
  float* const d_mid = buffers.dx;
  const ConstValues dy = operand(rows * hidden, d_mid, buffers.scratch + temp.d_residual);

  linear_weight_gradient(product.attention_out, dy, attention, at(gradients, weight.attention_out));
  linear_input_gradient(product.attention_out, dy, params.from(weight.attention_out), d_attention);
  attention_backward(attention_shape(config_, shape, io.positions),
                     typed(buffers.cheap + cheap.qkv), attention, buffers.dear + dear.log_sum_exp,
                     d_attention, wide_d_qkv, buffers.scratch + temp.attention_work);
  rotary_backward(rotary_shape(config_, shape, io.positions), rotary_table_.data(), wide_d_qkv);
  const ConstValues d_qkv = operand(rows * product.qkv.out, wide_d_qkv, wide_d_qkv);

  rms_norm_forward(rows, hidden, static_cast<float>(config_.rms_norm_eps), buffers.x,
                   params.from(weight.norm1), normed, rstd1);
  linear_weight_gradient(product.qkv, d_qkv, normed, at(gradients, weight.qkv));
  linear_input_gradient(product.qkv, d_qkv, params.from(weight.qkv), d_normed);
  rms_norm_backward(rows, hidden, buffers.x, params.from(weight.norm1), rstd1, d_normed, d_mid,
                    buffers.dx, at(gradients, weight.norm1));
}

}  // namespace lockstep::runtime

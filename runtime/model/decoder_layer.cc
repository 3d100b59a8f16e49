// Shapes: R rows (batch * time), C channels, H query heads, G key/value heads, D head size,
// F feed-forward size, U rows of the feed-forward part's first product.
#include "runtime/model/decoder_layer.h"

#include <algorithm>
#include <cassert>

#include "runtime/kernels/attention.h"
#include "runtime/kernels/device.h"
#include "runtime/kernels/elementwise.h"
#include "runtime/model/layer_shapes.h"

namespace lockstep::runtime {

using common::TensorRole;

DecoderLayer::DecoderLayer(const common::ModelConfig& config, int64_t index,
                           std::span<const float> rotary_table, DType dtype,
                           const common::LoraConfig& lora)
    : config_(config),
      family_(common::family_of(config)),
      rotary_table_(rotary_table),
      window_(config.window_of(index)),
      dtype_(dtype),
      lora_(lora),
      adapters_(config, lora, index, dtype),
      unit_(layer_unit(config, index)),
      norm_(config, config.hidden_size) {}

int64_t DecoderLayer::offset_of(TensorRole role) const {
  for (const UnitTensor& tensor : unit_.tensors) {
    if (tensor.role == role) return tensor.begin_elem;
  }
  return -1;
}

DecoderLayer::Half DecoderLayer::attention_half() const {
  return {.first_role = TensorRole::kQkv,
          .last_role = TensorRole::kAttentionOut,
          .norm = offset_of(TensorRole::kNorm1),
          .first = offset_of(TensorRole::kQkv),
          .first_bias = offset_of(TensorRole::kQkvBias),
          .last = offset_of(TensorRole::kAttentionOut),
          .last_bias = offset_of(TensorRole::kAttentionOutBias),
          .norm_after = offset_of(TensorRole::kAfterAttentionNorm)};
}

DecoderLayer::Half DecoderLayer::mlp_half() const {
  return {.first_role = TensorRole::kGateUp,
          .last_role = TensorRole::kDown,
          .norm = offset_of(TensorRole::kNorm2),
          .first = offset_of(TensorRole::kGateUp),
          .first_bias = offset_of(TensorRole::kGateUpBias),
          .last = offset_of(TensorRole::kDown),
          .last_bias = offset_of(TensorRole::kDownBias),
          .norm_after = offset_of(TensorRole::kAfterMlpNorm)};
}

DecoderLayer::Run DecoderLayer::run_of(const BatchShape& shape, ConstValues params,
                                       const MicroBatchIo& io, const BlockBuffers& buffers,
                                       float* gradients) const {
  return {.shape = shape,
          .params = params,
          .buffers = buffers,
          .layout = layout_of(config_, shape, dtype_, lora_),
          .io = io,
          .gradients = gradients,
          .rows = shape.rows()};
}

AdapterCall DecoderLayer::adapter_call(const Run& run) const {
  return {.rows = run.rows,
          .params = run.buffers.adapters,
          .gradients = run.buffers.adapter_gradients,
          .place = run.io.place,
          .scratch = run.buffers.scratch,
          .layout = &run.layout.scratch};
}

LinearShape DecoderLayer::product(const Run& run, int64_t in, int64_t out) const {
  return {run.rows, in, out, family_.naming == common::Naming::kGpt2};
}

LinearShape DecoderLayer::attention_end(const Run& run) const {
  return product(run, config_.num_attention_heads * config_.head_dim, config_.hidden_size);
}

LinearShape DecoderLayer::mlp_end(const Run& run) const {
  return product(run, config_.feed_forward_size(), config_.hidden_size);
}

SavedElems DecoderLayer::saved_elems(const BatchShape& shape) const {
  const common::LayerLayout layout = layout_of(config_, shape, dtype_, lora_);
  return {.dear = layout.dear.num_elems, .cheap = layout.cheap.num_elems};
}

int64_t DecoderLayer::scratch_elems(const BatchShape& shape) const {
  return layout_of(config_, shape, dtype_, lora_).scratch.num_elems;
}

ConstValues DecoderLayer::operand(int64_t n, const float* floats, float* part) const {
  if (dtype_ == DType::kFp32) return floats;
  narrow(n, floats, typed(part));
  return typed(part);
}

ConstValues DecoderLayer::input_of(const Run& run, const Half& half, const float* x,
                                   float* stats) const {
  float* const part = run.buffers.scratch + run.layout.scratch.normed;
  if (half.norm < 0) return operand(run.rows * config_.hidden_size, x, part);
  norm_.forward(run.rows, x, run.params.from(half.norm), typed(part), stats,
                run.buffers.scratch + run.layout.scratch.wide);
  return typed(part);
}

void DecoderLayer::begin_half(const Run& run, const Half& half, const LinearShape& shape,
                              ConstValues in, float* wide) const {
  linear_forward(shape, in, run.params.from(half.first), wide);
  if (half.first_bias >= 0) {
    add_bias(shape, run.params.from(half.first_bias), wide,
             run.buffers.scratch + run.layout.scratch.wide);
  }
  adapters_.add_forward(half.first_role, adapter_call(run), in, wide, shape.out);
}

void DecoderLayer::make_part(const Run& run, const Half& half, const LinearShape& shape,
                             ConstValues in, float* saved_part, float* stats) const {
  float* const wide = run.buffers.scratch + run.layout.scratch.wide;
  float* const part = run.buffers.scratch + run.layout.scratch.part;
  float* const raw = half.norm_after < 0 ? part : saved_part;
  linear_forward(shape, in, run.params.from(half.last), raw);
  if (half.last_bias >= 0) add_bias(shape, run.params.from(half.last_bias), raw, wide);
  adapters_.add_forward(half.last_role, adapter_call(run), in, raw, shape.out);
  if (half.norm_after < 0) return;
  norm_.forward(run.rows, raw, run.params.from(half.norm_after), part, stats, wide);
}

void DecoderLayer::end_half(const Run& run, const Half& half, const LinearShape& shape,
                            ConstValues in, const float* x, float* out) const {
  const int64_t stream = run.rows * config_.hidden_size;
  copy_floats(stream, x, out);
  if (common::has_separate_parts(config_)) {
    add_scaled(stream, static_cast<float>(config_.residual_multiplier),
               run.buffers.scratch + run.layout.scratch.part, out);
    return;
  }
  linear_forward_add(shape, in, run.params.from(half.last), out);
  if (half.last_bias >= 0) {
    add_bias(shape, run.params.from(half.last_bias), out,
             run.buffers.scratch + run.layout.scratch.wide);
  }
  adapters_.add_forward(half.last_role, adapter_call(run), in, out, shape.out);
}

std::array<DecoderLayer::HeadRows, 2> DecoderLayer::head_rows(const Run& run) const {
  const common::LayerLayout::Cheap& cheap = run.layout.cheap;
  float* const saved = run.buffers.cheap;
  return {{{.begin = 0,
            .num_heads = config_.num_attention_heads,
            .weight = offset_of(TensorRole::kQueryNorm),
            .raw = saved + cheap.raw_queries,
            .stats = saved + cheap.query_stats},
           {.begin = config_.num_attention_heads * config_.head_dim,
            .num_heads = config_.num_key_value_heads,
            .weight = offset_of(TensorRole::kKeyNorm),
            .raw = saved + cheap.raw_keys,
            .stats = saved + cheap.key_stats}}};
}

Norm DecoderLayer::head_norm(const HeadRows& heads) const {
  return Norm(config_, is_by_head() ? config_.head_dim : heads.num_heads * config_.head_dim);
}

void DecoderLayer::norm_heads(const Run& run, float* wide_qkv) const {
  if (family_.qk_norm == common::QkNorm::kNone) return;
  float* const normed = run.buffers.scratch + run.layout.scratch.heads;
  const int64_t row_elems = attention_shape(config_, run.shape).qkv_row_elems();
  for (const HeadRows& heads : head_rows(run)) {
    const int64_t width = heads.num_heads * config_.head_dim;
    const int64_t norms = is_by_head() ? run.rows * heads.num_heads : run.rows;
    copy_columns(run.rows, width, wide_qkv + heads.begin, row_elems, heads.raw, width);
    head_norm(heads).forward(norms, heads.raw, run.params.from(heads.weight), normed, heads.stats,
                             run.buffers.scratch + run.layout.scratch.wide);
    copy_columns(run.rows, width, normed, width, wide_qkv + heads.begin, row_elems);
  }
}

// Leaves the activation in the scratch.
void DecoderLayer::activate(const Run& run) const {
  const ConstValues gate_up = typed(run.buffers.cheap + run.layout.cheap.gate_up);
  const Values act = typed(run.buffers.scratch + run.layout.scratch.act);
  const int64_t ff = config_.feed_forward_size();
  const bool is_silu = family_.activation == common::Activation::kSilu;
  if (!family_.is_gated) {
    gelu_forward(gelu(), run.rows * ff, gate_up, act);
  } else if (is_silu) {
    swiglu_forward(run.rows, ff, gate_up, act);
  } else {
    geglu_forward(gelu(), run.rows, ff, gate_up, act);
  }
}

void DecoderLayer::forward(const BatchShape& shape, ConstValues params, MicroBatchIo& io,
                           const BlockBuffers& buffers) const {
  recompute(shape, params, io, buffers, Recompute::kAll);
  const Run run = run_of(shape, params, io, buffers, nullptr);
  const common::LayerLayout::Cheap& cheap = run.layout.cheap;
  if (!common::has_separate_parts(config_)) activate(run);
  end_half(run, mlp_half(), mlp_end(run), typed(buffers.scratch + run.layout.scratch.act),
           buffers.cheap + cheap.x_mid, buffers.y);
}

void DecoderLayer::recompute(const BatchShape& shape, ConstValues params, const MicroBatchIo& io,
                             const BlockBuffers& buffers, Recompute what) const {
  const Run run = run_of(shape, params, io, buffers, nullptr);
  const common::LayerLayout::Cheap& cheap = run.layout.cheap;
  const common::LayerLayout::Scratch& temp = run.layout.scratch;
  const int64_t hidden = config_.hidden_size;
  const AttentionShape heads = attention_shape(config_, shape, window_, io.on_device().positions);
  const LinearShape qkv_product = product(run, hidden, heads.qkv_row_elems());
  const LinearShape gate_up_product =
      product(run, hidden, common::feed_forward_rows(family_, config_));
  const Values qkv = typed(buffers.cheap + cheap.qkv);
  const Values attention = typed(buffers.dear + run.layout.dear.attention);
  float* const x_mid = buffers.cheap + cheap.x_mid;
  // In fp32 these products are kept as they are; else they are rounded into place.
  float* const wide_qkv = is_mixed() ? buffers.scratch + temp.wide_qkv : buffers.cheap + cheap.qkv;
  float* const wide_gate_up =
      is_mixed() ? buffers.scratch + temp.wide_gate_up : buffers.cheap + cheap.gate_up;

  const Half first = attention_half();
  begin_half(run, first, qkv_product, input_of(run, first, buffers.x, buffers.cheap + cheap.stats1),
             wide_qkv);
  norm_heads(run, wide_qkv);
  if (!rotary_table_.empty()) {
    rotary_forward(rotary_shape(config_, shape, heads.positions), rotary_table_.data(), wide_qkv);
  }
  if (is_mixed()) narrow(run.rows * qkv_product.out, wide_qkv, qkv);
  if (buffers.cache != nullptr) {
    attention_extend(heads, wide_qkv, *buffers.cache, buffers.dear + run.layout.dear.attention,
                     buffers.cache_scratch);
  } else if (what == Recompute::kAll) {
    attention_forward(heads, qkv, attention, buffers.dear + run.layout.dear.log_sum_exp,
                      buffers.scratch + temp.attention_work);
  }
  const bool has_parts = common::has_separate_parts(config_);
  if (has_parts) {
    make_part(run, first, attention_end(run), attention, buffers.cheap + cheap.attention_part,
              buffers.cheap + cheap.attention_stats);
  }
  end_half(run, first, attention_end(run), attention, buffers.x, x_mid);

  if (config_.has_experts()) return experts_half(run);
  const Half second = mlp_half();
  begin_half(run, second, gate_up_product,
             input_of(run, second, x_mid, buffers.cheap + cheap.stats2), wide_gate_up);
  if (is_mixed()) {
    narrow(run.rows * gate_up_product.out, wide_gate_up, typed(buffers.cheap + cheap.gate_up));
  }
  if (!has_parts) return;
  activate(run);
  make_part(run, second, mlp_end(run), typed(buffers.scratch + temp.act),
            buffers.cheap + cheap.mlp_part, buffers.cheap + cheap.mlp_stats);
}

}  // namespace lockstep::runtime

// What the kernels of a decoder layer are told of its sizes.
#pragma once

#include <cstdint>

#include "runtime/common/layer_layout.h"
#include "runtime/kernels/attention.h"
#include "runtime/kernels/elementwise.h"
#include "runtime/model/block.h"

namespace lockstep::runtime {

inline AttentionShape attention_shape(const common::ModelConfig& config, const BatchShape& shape,
                                      int64_t window = 0, const int32_t* positions = nullptr) {
  return {.batch = shape.batch,
          .seq = shape.seq,
          .num_heads = config.num_attention_heads,
          .num_kv_heads = config.num_key_value_heads,
          .head_dim = config.head_dim,
          .window = window,
          .scale = static_cast<float>(config.attention_scale()),
          .softcap = static_cast<float>(config.attention_softcap),
          .positions = positions};
}

inline RotaryShape rotary_shape(const common::ModelConfig& config, const BatchShape& shape,
                                const int32_t* positions) {
  return {.batch = shape.batch,
          .seq = shape.seq,
          .num_heads = config.num_attention_heads + config.num_key_value_heads,
          .head_dim = config.head_dim,
          .row_elems = attention_shape(config, shape).qkv_row_elems(),
          .rotary_dim = config.rotary_dim(),
          .positions = positions};
}

inline common::LayerLayout layout_of(const common::ModelConfig& config, const BatchShape& shape,
                                     DType dtype, const common::LoraConfig& lora = {}) {
  const int64_t attention_work = attention_scratch_elems(attention_shape(config, shape), dtype);
  return common::lay_out_layer(config, shape.batch, shape.seq, dtype, attention_work, lora);
}

}  // namespace lockstep::runtime

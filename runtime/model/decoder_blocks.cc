#include "runtime/model/decoder_blocks.h"

#include <algorithm>
#include <stdexcept>
#include <string>

#include "runtime/common/model_family.h"
#include "runtime/kernels/device.h"
#include "runtime/model/decoder_layer.h"
#include "runtime/model/embedding.h"
#include "runtime/model/head.h"
#include "runtime/model/rotary.h"
#include "runtime/model/score_head.h"

namespace lockstep::runtime {
namespace {

void require(bool holds, const std::string& what) {
  if (!holds) throw std::invalid_argument("decoder: " + what);
}

void require_positive(int64_t value, const std::string& name) {
  require(value > 0, name + " must be at least 1, found " + std::to_string(value));
}

void check_config(const common::ModelConfig& config, int64_t num_positions) {
  require_positive(config.vocab_size, "vocab_size");
  require_positive(config.hidden_size, "hidden_size");
  require_positive(config.intermediate_size, "intermediate_size");
  require_positive(config.num_hidden_layers, "num_hidden_layers");
  require_positive(config.num_attention_heads, "num_attention_heads");
  require_positive(config.num_key_value_heads, "num_key_value_heads");
  require_positive(config.head_dim, "head_dim");
  require_positive(num_positions, "sequence length");
  require(config.num_attention_heads % config.num_key_value_heads == 0,
          "num_key_value_heads must divide num_attention_heads");
  require(!common::family_of(config).has_learned_positions ||
              num_positions <= config.max_position_embeddings,
          "sequence length must be at most max_position_embeddings");
  require(config.head_dim % 2 == 0 && config.head_dim <= 256,
          "head_dim must be even and at most 256, found " + std::to_string(config.head_dim));
}

FloatBuffer on_device(const std::vector<float>& table) {
  FloatBuffer copy(static_cast<int64_t>(table.size()));
  copy_floats(copy.num_elems(), table.data(), copy.data());
  return copy;
}

}  // namespace

DecoderBlocks make_decoder_blocks(const common::ModelConfig& config, int64_t num_positions,
                                  DType dtype, const common::LoraConfig& lora) {
  check_config(config, num_positions);
  DecoderBlocks made;
  if (!common::family_of(config).has_learned_positions) {
    made.rotary = on_device(rotary_values(config, num_positions, /*has_window=*/false));
  }
  if (config.rope_local_theta > 0) {
    made.local_rotary = on_device(rotary_values(config, num_positions, /*has_window=*/true));
  }
  made.blocks.push_back(std::make_unique<Embedding>(config));
  for (int64_t i = 0; i < config.num_hidden_layers; ++i) {
    const bool is_local = made.local_rotary.num_elems() > 0 && config.window_of(i) > 0;
    const FloatBuffer& rotary = is_local ? made.local_rotary : made.rotary;
    made.blocks.push_back(std::make_unique<DecoderLayer>(config, i, rotary.elems(), dtype, lora));
  }
  if (config.has_score) {
    made.blocks.push_back(std::make_unique<ScoreHead>(config, dtype));
  } else {
    made.blocks.push_back(std::make_unique<Head>(config, dtype));
  }
  return made;
}

ActivationSizes activation_sizes(const DecoderBlocks& decoder, const common::ModelConfig& config,
                                 const BatchShape& shape) {
  require_positive(shape.batch, "batch");
  require_positive(shape.seq, "sequence length");
  ActivationSizes sizes = {.saved = {}, .stream_elems = shape.rows() * config.hidden_size};
  sizes.saved.reserve(decoder.blocks.size());
  for (const std::unique_ptr<Block>& block : decoder.blocks) {
    sizes.saved.push_back(block->saved_elems(shape));
    sizes.scratch_elems = std::max(sizes.scratch_elems, block->scratch_elems(shape));
  }
  return sizes;
}

}  // namespace lockstep::runtime

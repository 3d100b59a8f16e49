// The blocks of a decoder and the tables that they share.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "runtime/common/train_config.h"
#include "runtime/model/activation_buffers.h"
#include "runtime/model/block.h"

namespace lockstep::runtime {

struct DecoderBlocks {
  FloatBuffer rotary;        // [positions, rotary_dim]; empty with learned positions
  FloatBuffer local_rotary;  // of layers with a window, where they have their own
  std::vector<std::unique_ptr<Block>> blocks;  // embedding, layers, head; layers read the tables
};

// The blocks for sequences of at most `num_positions` tokens. Throws std::invalid_argument if the
// config cannot be a decoder (sizes that are not positive, heads that do not divide) or has fewer
// positions.
DecoderBlocks make_decoder_blocks(const common::ModelConfig& config, int64_t num_positions,
                                  DType dtype, const common::LoraConfig& lora);

// What the blocks need for a micro-batch of `shape`. Throws std::invalid_argument if it is empty.
ActivationSizes activation_sizes(const DecoderBlocks& decoder, const common::ModelConfig& config,
                                 const BatchShape& shape);

}  // namespace lockstep::runtime

#include "runtime/model/decoder.h"

#include <algorithm>
#include <stdexcept>
#include <string>
#include <utility>

#include "runtime/model/decoder_layer.h"
#include "runtime/model/embedding.h"
#include "runtime/model/head.h"
#include "runtime/model/rotary.h"

namespace lockstep::runtime {
namespace {

void check(const common::ModelConfig& config, const BatchShape& shape) {
  const auto require = [](bool holds, const std::string& what) {
    if (!holds) throw std::invalid_argument("decoder: " + what);
  };
  const auto require_positive = [&](int64_t value, const std::string& name) {
    require(value > 0, name + " must be at least 1, found " + std::to_string(value));
  };
  require_positive(config.vocab_size, "vocab_size");
  require_positive(config.hidden_size, "hidden_size");
  require_positive(config.intermediate_size, "intermediate_size");
  require_positive(config.num_hidden_layers, "num_hidden_layers");
  require_positive(config.num_attention_heads, "num_attention_heads");
  require_positive(config.num_key_value_heads, "num_key_value_heads");
  require_positive(config.head_dim, "head_dim");
  require_positive(shape.batch, "batch");
  require_positive(shape.seq, "sequence length");
  require(config.num_attention_heads % config.num_key_value_heads == 0,
          "num_key_value_heads must divide num_attention_heads");
  require(!common::family_of(config).has_learned_positions ||
              shape.seq <= config.max_position_embeddings,
          "sequence length must be at most max_position_embeddings");
  require(config.head_dim % 2 == 0 && config.head_dim <= 256,
          "head_dim must be even and at most 256, found " + std::to_string(config.head_dim));
}

}  // namespace

Decoder::Decoder(const common::ModelConfig& config, const BatchShape& shape,
                 common::ActivationCheckpointing checkpointing, DType dtype, bool offloads_saved)
    : config_(config), shape_(shape), checkpointing_(checkpointing) {
  check(config, shape);
  if (!common::family_of(config).has_learned_positions) {
    rotary_ = rotary_values(config, shape.seq, /*has_window=*/false);
  }
  if (config.rope_local_theta > 0) {
    local_rotary_ = rotary_values(config, shape.seq, /*has_window=*/true);
  }

  blocks_.push_back(std::make_unique<Embedding>(config));
  for (int64_t i = 0; i < config.num_hidden_layers; ++i) {
    const bool is_local = !local_rotary_.empty() && config.window_of(i) > 0;
    blocks_.push_back(
        std::make_unique<DecoderLayer>(config, i, is_local ? local_rotary_ : rotary_, dtype));
  }
  blocks_.push_back(std::make_unique<Head>(config, dtype));

  ActivationSizes sizes = {.saved = {}, .stream_elems = shape.rows() * config.hidden_size};
  sizes.saved.reserve(blocks_.size());
  for (const std::unique_ptr<Block>& block : blocks_) {
    sizes.saved.push_back(block->saved_elems(shape));
    sizes.scratch_elems = std::max(sizes.scratch_elems, block->scratch_elems(shape));
  }
  buffers_.emplace(sizes, checkpointing, offloads_saved);
}

Decoder::~Decoder() = default;

int64_t Decoder::num_blocks() const {
  return static_cast<int64_t>(blocks_.size());
}

const Unit& Decoder::unit(int64_t block) const {
  return blocks_.at(static_cast<size_t>(block))->unit();
}

int64_t Decoder::num_parameters() const {
  int64_t sum = 0;
  for (const std::unique_ptr<Block>& block : blocks_) sum += block->unit().num_elems;
  return sum;
}

void Decoder::store_saved_in(std::unique_ptr<SavedStore> store) {
  buffers_->store_in(std::move(store));
}

void Decoder::lend_tied(ConstValues weights, float* gradient) {
  lent_weights_ = weights;
  lent_gradient_ = gradient;
}

BlockBuffers Decoder::take_buffers(int64_t block) {
  BlockBuffers buffers = buffers_->of(block);
  if (tied_block() < 0 || block + 1 != num_blocks()) return buffers;
  buffers.tied_weight = std::exchange(lent_weights_, {});
  buffers.tied_gradient = std::exchange(lent_gradient_, nullptr);
  if (buffers.tied_weight.data == nullptr) {
    throw std::logic_error("decoder: the embedding's weights were not lent to the last block");
  }
  return buffers;
}

void Decoder::forward_block(int64_t block, ConstValues params, MicroBatchIo& io) {
  const Block& model_block = *blocks_.at(static_cast<size_t>(block));
  buffers_->before_forward(block);
  model_block.forward(shape_, params, io, take_buffers(block));
  buffers_->after_forward(block);
  if (model_block.saved_elems(shape_).cheap > 0) shared_holds_ = block;
}

void Decoder::backward_block(int64_t block, ConstValues params, MicroBatchIo& io,
                             float* gradients) {
  const Block& model_block = *blocks_.at(static_cast<size_t>(block));
  restore_saved(block, params, io);
  model_block.backward(shape_, params, io, take_buffers(block), gradients);
  buffers_->after_backward(block);
}

// Gives a block's backward what its forward saved and a later block has overwritten since. The last
// layer finds its own still there.
void Decoder::restore_saved(int64_t block, ConstValues params, const MicroBatchIo& io) {
  const Block& model_block = *blocks_[static_cast<size_t>(block)];
  if (checkpointing_ == common::ActivationCheckpointing::kNone) return;
  if (model_block.saved_elems(shape_).cheap == 0) return;
  if (shared_holds_ != block) {
    const bool keeps_dear = checkpointing_ == common::ActivationCheckpointing::kSelective;
    model_block.recompute(shape_, params, io, buffers_->of(block),
                          keeps_dear ? Recompute::kCheap : Recompute::kAll);
  }
  shared_holds_ = -1;  // backward uses them up
}

std::vector<float> Decoder::next_token_logits(std::span<const int32_t> tokens,
                                              std::span<const ConstValues> params) {
  const auto num_tokens = static_cast<int64_t>(tokens.size());
  if (num_tokens < 1 || num_tokens > shape_.seq || params.size() != blocks_.size()) {
    throw std::invalid_argument("next_token_logits: expected 1 to " + std::to_string(shape_.seq) +
                                " tokens and the parameters of " + std::to_string(num_blocks()) +
                                " blocks, found " + std::to_string(num_tokens) + " and " +
                                std::to_string(params.size()));
  }
  shared_holds_ = -1;
  const BatchShape shape = {.batch = 1, .seq = num_tokens};
  MicroBatchIo io = {.tokens = tokens.data()};
  for (size_t i = 0; i + 1 < blocks_.size(); ++i) {
    blocks_[i]->forward(shape, params[i], io, buffers_->of(static_cast<int64_t>(i)));
  }
  BlockBuffers buffers = buffers_->of(num_blocks() - 1);
  buffers.tied_weight = params.front();
  const float* const last_row = buffers.x + (num_tokens - 1) * config_.hidden_size;
  std::vector<float> logits(static_cast<size_t>(config_.vocab_size));
  dynamic_cast<const Head&>(*blocks_.back())
      .logits(1, params.back(), last_row, buffers, logits.data());
  return logits;
}

int64_t Decoder::buffer_bytes() const {
  return buffers_->num_bytes() +
         static_cast<int64_t>((rotary_.size() + local_rotary_.size()) * sizeof(float));
}

}  // namespace lockstep::runtime

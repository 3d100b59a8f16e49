#include "runtime/model/decoder.h"

#include <stdexcept>
#include <string>
#include <utility>

#include "runtime/kernels/device.h"
#include "runtime/model/head.h"

namespace lockstep::runtime {

Decoder::Decoder(const common::ModelConfig& config, const BatchShape& shape,
                 common::ActivationCheckpointing checkpointing, DType dtype, bool offloads_saved,
                 const common::LoraConfig& lora)
    : config_(config),
      has_adapters_(lora.is_on()),
      shape_(shape),
      checkpointing_(checkpointing),
      decoder_(make_decoder_blocks(config, shape.seq, dtype, lora)) {
  buffers_.emplace(activation_sizes(decoder_, config, shape), checkpointing, offloads_saved);
}

Decoder::~Decoder() = default;

int64_t Decoder::num_blocks() const {
  return static_cast<int64_t>(decoder_.blocks.size());
}

const Unit& Decoder::unit(int64_t block) const {
  return decoder_.blocks.at(static_cast<size_t>(block))->unit();
}

int64_t Decoder::num_parameters() const {
  int64_t sum = 0;
  for (const std::unique_ptr<Block>& block : decoder_.blocks) sum += block->unit().num_elems;
  return sum;
}

void Decoder::store_saved_in(std::unique_ptr<SavedStore> store) {
  buffers_->store_in(std::move(store));
}

void Decoder::lend_tied(ConstValues weights, float* gradient) {
  lent_weights_ = weights;
  lent_gradient_ = gradient;
}

int64_t Decoder::adapter_unit(int64_t block) const {
  const bool is_layer = block >= 1 && block + 1 < num_blocks();
  return has_adapters_ && is_layer ? num_blocks() + block - 1 : -1;
}

void Decoder::lend_adapters(ConstValues weights, float* gradient) {
  lent_adapters_ = weights;
  lent_adapter_gradients_ = gradient;
}

BlockBuffers Decoder::take_buffers(int64_t block) {
  BlockBuffers buffers = buffers_->of(block);
  buffers.adapters = std::exchange(lent_adapters_, {});
  buffers.adapter_gradients = std::exchange(lent_adapter_gradients_, nullptr);
  if (tied_block() < 0 || block + 1 != num_blocks()) return buffers;
  buffers.tied_weight = std::exchange(lent_weights_, {});
  buffers.tied_gradient = std::exchange(lent_gradient_, nullptr);
  if (buffers.tied_weight.data == nullptr) {
    throw std::logic_error("decoder: the embedding's weights were not lent to the last block");
  }
  return buffers;
}

// Blocks find what kernels read of the micro-batch in the device's memory.
void Decoder::bring_in(MicroBatchIo& io) {
  if (!device().has_own_memory) return;
  const int64_t rows = shape_.rows();
  if (batch_.num_elems() == 0) batch_ = FloatBuffer(3 * rows);
  static_assert(sizeof(int32_t) == sizeof(float));
  auto* room = reinterpret_cast<int32_t*>(batch_.data());
  const auto copy = [&room, rows](const int32_t* from) -> const int32_t* {
    if (from == nullptr) return nullptr;
    copy_bytes(room, from, static_cast<size_t>(rows) * sizeof(int32_t));
    return std::exchange(room, room + rows);
  };
  batch_rows_ = {copy(io.tokens), copy(io.labels), copy(io.positions)};
  io.copies = &batch_rows_;
}

void Decoder::forward_block(int64_t block, ConstValues params, MicroBatchIo& io) {
  if (block == 0) bring_in(io);
  const Block& model_block = *decoder_.blocks.at(static_cast<size_t>(block));
  buffers_->before_forward(block);
  model_block.forward(shape_, params, io, take_buffers(block));
  buffers_->after_forward(block);
  if (model_block.saved_elems(shape_).cheap > 0) shared_holds_ = block;
}

void Decoder::backward_block(int64_t block, ConstValues params, MicroBatchIo& io,
                             float* gradients) {
  const Block& model_block = *decoder_.blocks.at(static_cast<size_t>(block));
  const BlockBuffers buffers = take_buffers(block);
  restore_saved(block, params, io, buffers);
  model_block.backward(shape_, params, io, buffers, gradients);
  buffers_->after_backward(block);
}

void Decoder::logits(int64_t begin_row, int64_t num_rows, ConstValues params, float* out) {
  const BlockBuffers buffers = take_buffers(num_blocks() - 1);
  dynamic_cast<const Head&>(*decoder_.blocks.back())
      .logits(num_rows, params, buffers.x + begin_row * config_.hidden_size, buffers, out);
}

// Gives a block's backward what its forward saved and a later block has overwritten since. The last
// layer finds its own still there.
void Decoder::restore_saved(int64_t block, ConstValues params, const MicroBatchIo& io,
                            const BlockBuffers& buffers) {
  const Block& model_block = *decoder_.blocks[static_cast<size_t>(block)];
  if (checkpointing_ == common::ActivationCheckpointing::kNone) return;
  if (model_block.saved_elems(shape_).cheap == 0) return;
  if (shared_holds_ != block) {
    const bool keeps_dear = checkpointing_ == common::ActivationCheckpointing::kSelective;
    model_block.recompute(shape_, params, io, buffers,
                          keeps_dear ? Recompute::kCheap : Recompute::kAll);
  }
  shared_holds_ = -1;  // backward uses them up
}

int64_t Decoder::buffer_bytes() const {
  return buffers_->num_bytes() +
         static_cast<int64_t>(decoder_.rotary.num_bytes() + decoder_.local_rotary.num_bytes());
}

}  // namespace lockstep::runtime

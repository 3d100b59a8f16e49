// A decoder: embedding, layers, head-and-loss, with the buffers of one micro-batch.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "runtime/common/train_config.h"
#include "runtime/model/activation_buffers.h"
#include "runtime/model/decoder_blocks.h"

namespace lockstep::runtime {

// Keeps the blocks of a model and the activations of the micro-batch in flight. The caller walks
// the blocks, each with its parameters: forward 0..num_blocks-2, then backward num_blocks-1..0. The
// last block's backward computes the loss; its forward is for a loss without gradients.
class Decoder {
 public:
  //   offloads_saved: what layers save has few windows in memory; store_saved_in() comes before the
  //   first forward then. See Note [Records and windows].
  //   lora: layers have adapters beside their own weights, which are frozen then.
  // Computes in `dtype`, see Note [Precision of a block]. Allocates all buffers. Throws
  // std::invalid_argument if the config cannot be a decoder (sizes that are not positive, heads
  // that do not divide) or `shape` is empty; std::bad_alloc.
  Decoder(const common::ModelConfig& config, const BatchShape& shape,
          common::ActivationCheckpointing checkpointing = common::ActivationCheckpointing::kNone,
          DType dtype = DType::kFp32, bool offloads_saved = false,
          const common::LoraConfig& lora = {});
  ~Decoder();

  // What a store must hold: records of saved_record_bytes() each; none unless saved is offloaded,
  // and with at most two layers, whose records stay in memory.
  int64_t num_saved_records() const { return buffers_->num_records(); }
  int64_t saved_record_bytes() const { return buffers_->record_bytes(); }
  void store_saved_in(std::unique_ptr<SavedStore> store);

  int64_t num_blocks() const;
  const Unit& unit(int64_t block) const;
  int64_t num_parameters() const;

  // The block whose weights the last block uses too: 0 with tie_word_embeddings, else -1.
  int64_t tied_block() const { return config_.tie_word_embeddings ? 0 : -1; }
  // Lends the embedding's weights to the next forward or backward of the last block; required by
  // both if tied_block() >= 0 (std::logic_error if missing).
  //   gradient: the buffer that block 0's backward gets later, for a backward; null for a forward
  //   and where block 0 is frozen.
  //   The last block writes every element, block 0 adds to it.
  void lend_tied(ConstValues weights, float* gradient);

  // The unit of a block's adapters, see Note [Units of adapters]; -1: it has none.
  int64_t adapter_unit(int64_t block) const;
  // Lends them to the next forward or backward of their block, which needs them (std::logic_error).
  //   gradient: for a backward, which writes every element; null for a forward.
  void lend_adapters(ConstValues weights, float* gradient);

  // Runs one block on the micro-batch; block 0 reads io.tokens, the last one writes io.loss_sum.
  // Block 0 comes first with an `io`: it brings that to the device.
  // Throws std::out_of_range on a token or label beyond the vocabulary.
  void forward_block(int64_t block, ConstValues params, MicroBatchIo& io);
  // Runs one block's backward; `gradients` gets every element of the unit written. Once per
  // forward. With activation checkpointing it first computes again what was not kept, with the same
  // bits. The last block's writes io.loss_sum and throws as its forward does.
  void backward_block(int64_t block, ConstValues params, MicroBatchIo& io, float* gradients);

  // Logits of rows [begin_row, begin_row + num_rows) of the micro-batch whose other blocks have run
  // forward; not of a model with a score. lend_tied() comes first as for a forward.
  //   params: of the last block; out: [num_rows, vocab], written.
  void logits(int64_t begin_row, int64_t num_rows, ConstValues params, float* out);

  // Bytes of activations, saved tensors and scratch that this object holds.
  int64_t buffer_bytes() const;

 private:
  void bring_in(MicroBatchIo& io);
  // The block's buffers with what was lent for this one call.
  BlockBuffers take_buffers(int64_t block);
  void restore_saved(int64_t block, ConstValues params, const MicroBatchIo& io,
                     const BlockBuffers& buffers);

  common::ModelConfig config_;
  bool has_adapters_;
  BatchShape shape_;
  common::ActivationCheckpointing checkpointing_;
  int64_t shared_holds_ = -1;  // the block whose saved floats the shared buffer holds; -1: nobody's
  ConstValues lent_weights_;   // by lend_tied(), until the last block has run
  float* lent_gradient_ = nullptr;
  ConstValues lent_adapters_;  // by lend_adapters(), until the next block has run
  float* lent_adapter_gradients_ = nullptr;
  DecoderBlocks decoder_;
  std::optional<ActivationBuffers> buffers_;
  FloatBuffer batch_;  // tokens, labels and positions where the device has its own memory
  DeviceRows batch_rows_;
};

// Writes elements [begin_elem, begin_elem + out.size()) of a unit's initial weights. Normal values
// deviate by initializer_range, scaled as the tensor says (gpt2's outputs by depth), uniform ones
// (A of adapters) lie within the tensor's scale. Counter-based
// on (seed, tensor name, element): the same element has the same bits however the unit is sliced.
void initial_weights(const Unit& unit, uint64_t seed, double initializer_range, int64_t begin_elem,
                     std::span<float> out);

}  // namespace lockstep::runtime

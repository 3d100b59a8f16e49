// A model is a list of blocks; each has one unit of parameters and a hand-written backward.
#pragma once

#include <cstdint>

#include "runtime/kernels/attention.h"
#include "runtime/kernels/typed_values.h"
#include "runtime/model/distillation.h"
#include "runtime/model/dropout.h"
#include "runtime/model/span_loss.h"
#include "runtime/model/unit.h"

namespace lockstep::runtime {

struct BatchShape {
  int64_t batch = 0;  // sequences of a micro-batch
  int64_t seq = 0;    // tokens of a sequence
  int64_t rows() const { return batch * seq; }
};

// What of a micro-batch kernels read, in the device's memory.
struct DeviceRows {
  const int32_t* tokens = nullptr;
  const int32_t* labels = nullptr;
  const int32_t* positions = nullptr;
};

// What a micro-batch brings in, and what comes out at its end.
struct MicroBatchIo {
  const int32_t* tokens = nullptr;  // [rows]
  const int32_t* labels = nullptr;  // [rows]; negative = no loss
  // [rows]: place of each token in its document, as AttentionShape::positions; null: a sequence is
  // one document.
  const int32_t* positions = nullptr;
  float loss_scale = 1;                  // 1 / loss tokens of the global batch
  const TrainingPlace* place = nullptr;  // null: not in training, nothing is dropped
  const SpanLoss* span_loss = nullptr;   // null: the loss is the sum over all labels
  const Distillation* distillation =
      nullptr;          // of a sum over all labels; null: there is no teacher
  double loss_sum = 0;  // written by the head, forward and backward: sum over its tokens or as
                        // span_loss says, unscaled
  // Copies of the first three where the device does not read the host's memory: the decoder's.
  const DeviceRows* copies = nullptr;

  DeviceRows on_device() const {
    return copies != nullptr ? *copies : DeviceRows{tokens, labels, positions};
  }
};

// Floats that forward leaves for backward, by what it takes to have them again.
struct SavedElems {
  int64_t dear = 0;
  int64_t cheap = 0;
};

// Which of the saved floats to compute again.
enum class Recompute { kCheap, kAll };

// Buffers of one block for one micro-batch; all preallocated, none owned.
struct BlockBuffers {
  const float* x = nullptr;   // [rows, in_channels] input (null for the embedding)
  float* y = nullptr;         // [rows, out_channels] output of forward (null for the head)
  const float* dy = nullptr;  // gradient of y (null for the head)
  float* dx = nullptr;  // gradient of x, written by backward (null for the embedding); may alias dy
  float* dear = nullptr;     // [saved_elems.dear] filled by forward, used up by backward
  float* cheap = nullptr;    // [saved_elems.cheap] the same
  float* scratch = nullptr;  // [scratch_elems] contents do not survive the call
  // Of a head that shares the embedding's weight, [vocab, hidden]: the weight, and for backward
  // where the head's part of its gradient is written. See Note [Tied embeddings].
  ConstValues tied_weight;
  float* tied_gradient = nullptr;  // null if the embedding is frozen
  // Of a layer with adapters, [their unit's elements]: weights of the block's type, and for
  // backward where their gradient is written. See Note [Units of adapters].
  ConstValues adapters;
  float* adapter_gradients = nullptr;
  // Of a layer that goes on from earlier rows, fp32 and forward only: its cache, and
  // attention_extend()'s scratch. Null: the micro-batch is all that there is.
  const AttentionCache* cache = nullptr;
  float* cache_scratch = nullptr;
};

// Note [Precision of a block]
// A block is built for one type of computation. In bf16 and fp16 the weights given to it are the
// rounded copies of the fp32 masters, and so are both operands of every product; what only feeds
// products, and what attention and SwiGLU are recomputed from, is stored in that type by the kernel
// that makes it. The residual stream, its gradient, norms, softmax, loss, sums of products and
// gradients of weights are fp32. In fp32 all of it is.
class Block {
 public:
  virtual ~Block() = default;
  virtual const Unit& unit() const = 0;
  // Floats of `dear`, `cheap` and `scratch` for a micro-batch of `shape`; never less for a larger
  // shape.
  virtual SavedElems saved_elems(const BatchShape& shape) const = 0;
  virtual int64_t scratch_elems(const BatchShape& shape) const = 0;
  // Runs the block.
  //   params: [unit().num_elems], of the block's type.
  // Throws std::out_of_range on a token or label beyond the vocabulary.
  virtual void forward(const BatchShape& shape, ConstValues params, MicroBatchIo& io,
                       const BlockBuffers& buffers) const = 0;
  // Fills `cheap`, or `dear` and `cheap`, from `x` once more, with the bits that forward() gave
  // them. Only for blocks that save something.
  virtual void recompute(const BatchShape& shape, ConstValues params, const MicroBatchIo& io,
                         const BlockBuffers& buffers, Recompute what) const = 0;
  // Gradient of forward(), whose `x`, `dear` and `cheap` are given again.
  //   gradients: [unit().num_elems], fp32; every element is written, nothing is accumulated. Null
  //   for a frozen unit: only dx is computed, with the same bits.
  virtual void backward(const BatchShape& shape, ConstValues params, MicroBatchIo& io,
                        const BlockBuffers& buffers, float* gradients) const = 0;
};

}  // namespace lockstep::runtime

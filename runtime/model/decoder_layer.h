// One layer of a Llama-style decoder: x + attention(norm(x)), then + swiglu(norm(.)).
#pragma once

#include <span>

#include "runtime/common/train_config.h"
#include "runtime/model/block.h"

namespace lockstep::runtime {

class DecoderLayer final : public Block {
 public:
  // rotary_table: [T, head_dim] as rotary_table() writes it, T at least the longest sequence;
  // borrowed, must outlive this object.
  DecoderLayer(const common::ModelConfig& config, int64_t index,
               std::span<const float> rotary_table, DType dtype = DType::kFp32);

  const Unit& unit() const override { return unit_; }
  SavedElems saved_elems(const BatchShape& shape) const override;
  int64_t scratch_elems(const BatchShape& shape) const override;
  void forward(const BatchShape& shape, ConstValues params, MicroBatchIo& io,
               const BlockBuffers& buffers) const override;
  void recompute(const BatchShape& shape, ConstValues params, const MicroBatchIo& io,
                 const BlockBuffers& buffers, Recompute what) const override;
  void backward(const BatchShape& shape, ConstValues params, MicroBatchIo& io,
                const BlockBuffers& buffers, float* gradients) const override;

 private:
  struct Dear;
  struct Cheap;
  struct Scratch;
  struct Weights;

  Dear dear_layout(const BatchShape& shape) const;
  Cheap cheap_layout(const BatchShape& shape) const;
  Scratch scratch_layout(const BatchShape& shape) const;
  Weights weight_offsets() const;
  // The part of a buffer that holds numbers of the block's type.
  Values typed(float* part) const { return {dtype_, part}; }
  // `n` floats as an operand of products: rounded into `part`, or as they are in fp32.
  ConstValues operand(int64_t n, const float* floats, float* part) const;
  void attention_half_backward(const BatchShape& shape, ConstValues params, const MicroBatchIo& io,
                               const BlockBuffers& buffers, float* gradients) const;
  void mlp_half_backward(const BatchShape& shape, ConstValues params, const BlockBuffers& buffers,
                         float* gradients) const;

  common::ModelConfig config_;
  std::span<const float> rotary_table_;
  DType dtype_;
  Unit unit_;
};

}  // namespace lockstep::runtime

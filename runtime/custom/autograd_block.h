// A block whose backward autograd derives, where a hand-written one is expected.
#pragma once

#include <cstdint>

#include "runtime/custom/module_unit.h"
#include "runtime/model/block.h"

namespace lockstep::runtime {

struct AutogradBlockOptions {
  int64_t in_channels = 0;   // 0: the first block, which has the batch alone
  int64_t out_channels = 0;  // 0: the last block, which returns the sum of the loss
  DType dtype = DType::kFp32;
};

// Adapts any function of tensors to the Block interface. The function gets x as [batch, seq,
// in_channels], and as its batch {tokens, labels, positions}, each [batch, seq] in int64, those
// that the micro-batch has (labels negative = no loss); it returns [batch, seq, out_channels], or
// the loss. Nothing is saved, so there is nothing to recompute but by backward itself. A function
// that draws random numbers is refused: blocks here are told of no step. A tied head cannot be one.
class AutogradBlock final : public Block {
 public:
  // Throws as ModuleUnit's constructor.
  AutogradBlock(CustomBlock block, const AutogradBlockOptions& options);

  std::vector<float> take_first_weights() { return module_.take_first_weights(); }

  const Unit& unit() const override { return module_.unit(); }
  SavedElems saved_elems(const BatchShape&) const override { return {}; }
  int64_t scratch_elems(const BatchShape&) const override { return 0; }
  void forward(const BatchShape& shape, ConstValues params, MicroBatchIo& io,
               const BlockBuffers& buffers) const override;
  void recompute(const BatchShape&, ConstValues, const MicroBatchIo&, const BlockBuffers&,
                 Recompute) const override {}
  void backward(const BatchShape& shape, ConstValues params, MicroBatchIo& io,
                const BlockBuffers& buffers, float* gradients) const override;

 private:
  at::Tensor input(const BatchShape& shape, const BlockBuffers& buffers) const;
  void check_output(const at::Tensor& y, const BatchShape& shape) const;

  AutogradBlockOptions options_;
  ModuleUnit module_;
};

}  // namespace lockstep::runtime

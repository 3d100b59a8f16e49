// A part of a model that autograd differentiates: a torch module whose parameters are one unit.
//
// Note [Borrowed parameters]
// A unit's weights are its Parallelism's: they lie in one flat buffer, which is another one at
// every gather under zero3. During a call the module's parameters are views of that buffer (of its
// rounded copy in bf16); between calls they are empty. So nothing is copied, and no memory is held
// that the strategy has given back. Forward keeps nothing: backward runs the function once more.
//
// Note [Randomness is counter-based]
// Around every call torch's default generator is seeded by (seed, step, micro-batch, block) and put
// back afterwards. So the recompute draws what forward drew, and a micro-batch draws the same on
// whichever rank it is computed, in whichever attempt. torch.utils.checkpoint's preserve_rng_state
// gives the first of these only.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <ATen/core/Tensor.h>
#include <torch/nn/module.h>

#include "runtime/kernels/typed_values.h"
#include "runtime/model/unit.h"

namespace lockstep::runtime {

// What a micro-batch brings in besides activations: tokens, labels, images, as the loop made it.
using TensorBatch = std::vector<at::Tensor>;

// Any function of tensors; the module whose parameters it uses is given beside it.
//   x: the output of the block before; undefined for the first block. In bf16 cast to it.
// Returns y, of a floating type and any shape; of the last block the sum of the loss over what the
// micro-batch holds, one fp32 or fp64 number.
using BlockFunction = std::function<at::Tensor(const at::Tensor& x, const TensorBatch& batch)>;

struct CustomBlock {
  std::string name;  // of the unit; tensors are called "NAME.PARAMETER" in checkpoints and exports
  std::shared_ptr<torch::nn::Module> module;  // null: the function has no parameters
  BlockFunction function;
};

class ModuleUnit {
 public:
  // One call for a micro-batch.
  struct Call {
    ConstValues params;  // [unit().num_elems], of the type given to the constructor
    const TensorBatch& batch;
    std::optional<uint64_t> random_key;  // nothing: drawing random numbers is an error
  };

  // Takes the parameters' values for take_first_weights() and leaves the module without any. Throws
  // RunError(kInvalidConfig), naming block and tensor: a missing name or function; a buffer (it
  // would be other on every rank, and in no checkpoint); a parameter that is not fp32 on the CPU,
  // is registered twice, is empty, or is frozen beside others that are not.
  ModuleUnit(CustomBlock block, DType dtype);

  const std::string& name() const { return unit_.name; }
  const Unit& unit() const { return unit_; }
  bool is_frozen() const { return is_frozen_; }
  // Can be taken once.
  std::vector<float> take_first_weights() { return std::move(first_weights_); }

  // The output, without a graph. Throws RunError(kInvalidConfig) naming the block if it is not of a
  // floating type; what the function throws.
  at::Tensor forward(const Call& call, const at::Tensor& x) const;

  // forward() with the module and all below it in eval mode; their modes are put back.
  at::Tensor evaluate(const Call& call, const at::Tensor& x) const;

  // Gradients of forward().
  //   dy: of forward()'s shape. Undefined: the output is the loss, whose gradient is `loss_scale`.
  //   gradients: [unit().num_elems], all written, zeros for what the function does not use; null
  //   for a frozen unit or none at all.
  //   wants_dx: whether somebody needs it.
  struct Backward {
    at::Tensor dx;        // of x; undefined unless it is wanted
    double loss_sum = 0;  // if dy is undefined
  };
  Backward backward(const Call& call, const at::Tensor& x, const at::Tensor& dy, double loss_scale,
                    float* gradients, bool wants_dx) const;

  // Throws RunError(kInvalidConfig) naming the block unless `loss` is one fp32 or fp64 number.
  void check_loss(const at::Tensor& loss) const;

 private:
  at::Tensor run(const Call& call, const at::Tensor& x) const;
  at::Tensor cast(const at::Tensor& x) const;

  BlockFunction function_;
  std::shared_ptr<torch::nn::Module> module_;
  std::vector<at::Tensor> parameters_;  // in the unit's order; handles of the module's
  Unit unit_;
  DType dtype_;
  bool is_frozen_ = false;
  std::vector<float> first_weights_;
};

}  // namespace lockstep::runtime

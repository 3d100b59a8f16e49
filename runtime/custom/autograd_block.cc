#include "runtime/custom/autograd_block.h"

#include <sstream>
#include <string>
#include <utility>

#include <ATen/Functions.h>

#include "runtime/train/run_error.h"

namespace lockstep::runtime {
namespace {

// Copies: the function may keep what it gets.
at::Tensor integers(const int32_t* values, const BatchShape& shape) {
  return at::from_blob(const_cast<int32_t*>(values), {shape.batch, shape.seq}, at::kInt)
      .to(at::kLong);
}

TensorBatch batch_of(const MicroBatchIo& io, const BatchShape& shape) {
  TensorBatch batch;
  for (const int32_t* values : {io.tokens, io.labels, io.positions}) {
    if (values != nullptr) batch.push_back(integers(values, shape));
  }
  return batch;
}

at::Tensor stream(const float* values, const BatchShape& shape, int64_t channels) {
  return at::from_blob(const_cast<float*>(values), {shape.batch, shape.seq, channels}, at::kFloat);
}

}  // namespace

AutogradBlock::AutogradBlock(CustomBlock block, const AutogradBlockOptions& options)
    : options_(options), module_(std::move(block), options.dtype) {}

at::Tensor AutogradBlock::input(const BatchShape& shape, const BlockBuffers& buffers) const {
  return options_.in_channels == 0 ? at::Tensor() : stream(buffers.x, shape, options_.in_channels);
}

void AutogradBlock::check_output(const at::Tensor& y, const BatchShape& shape) const {
  if (y.sizes() == at::IntArrayRef{shape.batch, shape.seq, options_.out_channels}) return;
  std::ostringstream text;
  text << "block '" << unit().name << "' must return [" << shape.batch << ", " << shape.seq << ", "
       << options_.out_channels << "], found " << y.sizes();
  refuse(text.str(), "correct out_channels or the function");
}

void AutogradBlock::forward(const BatchShape& shape, ConstValues params, MicroBatchIo& io,
                            const BlockBuffers& buffers) const {
  const TensorBatch batch = batch_of(io, shape);
  const at::Tensor y =
      module_.forward({.params = params, .batch = batch, .random_key = {}}, input(shape, buffers));
  if (options_.out_channels == 0) {
    module_.check_loss(y);
    io.loss_sum = y.item<double>();
    return;
  }
  check_output(y, shape);
  stream(buffers.y, shape, options_.out_channels).copy_(y);
}

void AutogradBlock::backward(const BatchShape& shape, ConstValues params, MicroBatchIo& io,
                             const BlockBuffers& buffers, float* gradients) const {
  const TensorBatch batch = batch_of(io, shape);
  const bool is_last = options_.out_channels == 0;
  const at::Tensor dy = is_last ? at::Tensor() : stream(buffers.dy, shape, options_.out_channels);
  const ModuleUnit::Backward result =
      module_.backward({.params = params, .batch = batch, .random_key = {}}, input(shape, buffers),
                       dy, static_cast<double>(io.loss_scale), gradients, buffers.dx != nullptr);
  if (is_last) io.loss_sum = result.loss_sum;
  // dx may alias dy, which autograd has used up by now.
  if (result.dx.defined()) stream(buffers.dx, shape, options_.in_channels).copy_(result.dx);
}

}  // namespace lockstep::runtime

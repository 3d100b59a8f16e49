#include "runtime/model/adapters.h"

#include <algorithm>
#include <stdexcept>
#include <utility>

#include "runtime/kernels/elementwise.h"
#include "runtime/kernels/gemm.h"

namespace lockstep::runtime {
namespace {

using common::LinearModule;
using common::TensorRole;

void require_params(const AdapterCall& call) {
  if (call.params.data == nullptr) {
    throw std::logic_error("decoder: the adapters' weights were not lent to their layer");
  }
}

}  // namespace

Adapters::Adapters(const common::ModelConfig& config, const common::LoraConfig& lora, int64_t layer,
                   DType dtype)
    : layer_(layer),
      rank_(lora.rank),
      scale_(lora.is_on() ? static_cast<float>(lora.scale()) : 0),
      rate_(lora.dropout),
      dtype_(dtype),
      unit_(adapter_unit(config, lora, layer)) {
  for (LinearModule& module : common::adapted_modules(config, lora, layer)) {
    const std::size_t first = 2 * modules_.size();  // A, then B
    modules_.push_back({.at = std::move(module),
                        .number = static_cast<int64_t>(modules_.size()),
                        .a_begin = unit_.tensors.at(first).begin_elem,
                        .b_begin = unit_.tensors.at(first + 1).begin_elem});
  }
}

bool Adapters::has(TensorRole product) const {
  return std::any_of(modules_.begin(), modules_.end(),
                     [product](const Module& module) { return module.at.product == product; });
}

DropoutMask Adapters::mask_of(const Module& module, const AdapterCall& call) const {
  return {.rate = rate_, .place = *call.place, .layer = layer_, .module = module.number};
}

ConstValues Adapters::input_of(const Module& module, const AdapterCall& call, ConstValues x) const {
  if (!drops(call)) return x;
  const int64_t num_elems = call.rows * module.at.in;
  float* const dropped = call.scratch + call.layout->dropped;
  float* const wide = dtype_ == DType::kFp32 ? dropped : call.scratch + call.layout->d_dropped;
  widen(num_elems, x, wide);
  apply_dropout(mask_of(module, call), num_elems, wide);
  if (dtype_ == DType::kFp32) return dropped;
  narrow(num_elems, wide, {dtype_, dropped});
  return {dtype_, dropped};
}

ConstValues Adapters::scaled_low(const AdapterCall& call) const {
  float* const low = call.scratch + call.layout->low;
  scale(call.rows * rank_, scale_, low, low);
  if (dtype_ == DType::kFp32) return low;
  float* const part = call.scratch + call.layout->low_operand;
  narrow(call.rows * rank_, low, {dtype_, part});
  return {dtype_, part};
}

ConstValues Adapters::low_of(const Module& module, const AdapterCall& call, ConstValues in) const {
  gemm({.m = call.rows, .n = rank_, .k = module.at.in}, {.data = in, .leading = module.at.in},
       {.data = call.params.from(module.a_begin),
        .leading = module.at.in,
        .transpose = Transpose::kYes},
       0.0F, call.scratch + call.layout->low, rank_);
  return scaled_low(call);
}

void Adapters::add_forward(TensorRole product, const AdapterCall& call, ConstValues x, float* y,
                           int64_t y_columns) const {
  for (const Module& module : modules_) {
    if (module.at.product != product) continue;
    require_params(call);
    const ConstValues low = low_of(module, call, input_of(module, call, x));
    gemm({.m = call.rows, .n = module.at.out, .k = rank_}, {.data = low, .leading = rank_},
         {.data = call.params.from(module.b_begin), .leading = rank_, .transpose = Transpose::kYes},
         1.0F, y + module.at.out_begin, y_columns);
  }
}

void Adapters::backward(TensorRole product, const AdapterCall& call, ConstValues x, ConstValues d,
                        int64_t d_columns, float* dx) const {
  for (const Module& module : modules_) {
    if (module.at.product != product) continue;
    require_params(call);
    module_backward(module, call, x, d.from(module.at.out_begin), d_columns, dx);
  }
}

void Adapters::module_backward(const Module& module, const AdapterCall& call, ConstValues x,
                               ConstValues d, int64_t d_columns, float* dx) const {
  const int64_t in = module.at.in;
  const int64_t out = module.at.out;
  const ConstValues a = call.params.from(module.a_begin);
  const ConstValues input = input_of(module, call, x);
  const ConstValues low = low_of(module, call, input);
  gemm({.m = out, .n = rank_, .k = call.rows},
       {.data = d, .leading = d_columns, .transpose = Transpose::kYes},
       {.data = low, .leading = rank_}, 0.0F, call.gradients + module.b_begin, rank_);
  // From here on `low` is its gradient.
  gemm({.m = call.rows, .n = rank_, .k = out}, {.data = d, .leading = d_columns},
       {.data = call.params.from(module.b_begin), .leading = rank_}, 0.0F,
       call.scratch + call.layout->low, rank_);
  const ConstValues d_low = scaled_low(call);
  gemm({.m = rank_, .n = in, .k = call.rows},
       {.data = d_low, .leading = rank_, .transpose = Transpose::kYes},
       {.data = input, .leading = in}, 0.0F, call.gradients + module.a_begin, in);
  const GemmShape of_input = {.m = call.rows, .n = in, .k = rank_};
  const ConstMatrix d_low_rows = {.data = d_low, .leading = rank_};
  const ConstMatrix a_rows = {.data = a, .leading = in};
  if (!drops(call)) return gemm(of_input, d_low_rows, a_rows, 1.0F, dx, in);
  float* const d_input = call.scratch + call.layout->d_dropped;
  gemm(of_input, d_low_rows, a_rows, 0.0F, d_input, in);
  apply_dropout(mask_of(module, call), call.rows * in, d_input);
  add_in_place(call.rows * in, d_input, dx);
}

}  // namespace lockstep::runtime

// The low-rank adapters of a decoder layer: beside a product y = x W^T whose weight is frozen,
// y += s (drop(x) A^T) B^T.
// Shapes: R rows, r rank; of a module: x [R, in], A [r, in], B [out, r].
#pragma once

#include <cstdint>
#include <vector>

#include "runtime/common/layer_layout.h"
#include "runtime/common/lora.h"
#include "runtime/kernels/typed_values.h"
#include "runtime/model/dropout.h"
#include "runtime/model/unit.h"

namespace lockstep::runtime {

// One call on one micro-batch; all borrowed.
struct AdapterCall {
  int64_t rows = 0;
  ConstValues params;                    // [unit elements], of the layer's type
  float* gradients = nullptr;            // [unit elements], for backward()
  const TrainingPlace* place = nullptr;  // null: nothing is dropped
  float* scratch = nullptr;
  const common::LayerLayout::Scratch* layout = nullptr;  // `low` and its neighbours in it
};

class Adapters {
 public:
  // Without modules for a `lora` that is not on.
  Adapters(const common::ModelConfig& config, const common::LoraConfig& lora, int64_t layer,
           DType dtype);

  bool empty() const { return modules_.empty(); }
  const Unit& unit() const { return unit_; }
  // Whether a module of that product has one.
  bool has(common::TensorRole product) const;

  // Adds to y, a product's result, what its adapters make of x.
  //   x: [R, in], of the layer's type; y: [R, y_columns], all modules of the product.
  // Throws std::logic_error without params.
  void add_forward(common::TensorRole product, const AdapterCall& call, ConstValues x, float* y,
                   int64_t y_columns) const;

  // Writes the gradients of A and B of the product's modules, and adds that of x.
  //   x: as in add_forward(); d: gradient of y, of the layer's type, [R, d_columns]; dx: [R, in].
  // Throws as add_forward().
  void backward(common::TensorRole product, const AdapterCall& call, ConstValues x, ConstValues d,
                int64_t d_columns, float* dx) const;

 private:
  struct Module {
    common::LinearModule at;
    int64_t number = 0;   // in the layer
    int64_t a_begin = 0;  // in the unit
    int64_t b_begin = 0;
  };

  // What goes into A: x, or what dropout leaves of it, in the scratch.
  ConstValues input_of(const Module& module, const AdapterCall& call, ConstValues x) const;
  // s times the floats of `low` in the scratch, as an operand.
  ConstValues scaled_low(const AdapterCall& call) const;
  ConstValues low_of(const Module& module, const AdapterCall& call, ConstValues in) const;
  void module_backward(const Module& module, const AdapterCall& call, ConstValues x, ConstValues d,
                       int64_t d_columns, float* dx) const;
  bool drops(const AdapterCall& call) const { return rate_ > 0 && call.place != nullptr; }
  DropoutMask mask_of(const Module& module, const AdapterCall& call) const;

  int64_t layer_;
  int64_t rank_;
  float scale_;
  double rate_;
  DType dtype_;
  Unit unit_;
  std::vector<Module> modules_;
};

}  // namespace lockstep::runtime

// A unit: one block's parameters in one flat fp32 buffer, in the order of its safetensors file.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "runtime/common/lora.h"
#include "runtime/common/model_tensors.h"

namespace lockstep::runtime {

using Init = common::FirstValues;

struct UnitTensor {
  std::string name;            // Hugging Face name, e.g. "model.layers.0.self_attn.q_proj.weight"
  std::vector<int64_t> shape;  // [out, in] for matrices, of gpt2 [in, out]
  int64_t begin_elem = 0;      // in the unit
  int64_t num_elems = 0;
  Init init = Init::kNormal;
  double init_scale = 1;  // of the deviation of normal values; the bound of uniform ones
  common::TensorRole role = common::TensorRole::kTokenEmbedding;
};

struct Unit {
  std::string name;                 // "embedding", "layer.3", "head", "layer.3.lora"
  std::vector<UnitTensor> tensors;  // contiguous, in order
  int64_t num_elems = 0;
};

// The token embedding, [vocab, hidden], then that of positions if the family learns one.
Unit embedding_unit(const common::ModelConfig& config);

// Decoder layer `index`. The rows of q, k, v and those of gate, up follow one another, so that each
// group is one weight matrix of a single product.
Unit layer_unit(const common::ModelConfig& config, int64_t index);

// The final norm and lm_head; the norm alone if lm_head is the embedding's weight.
Unit head_unit(const common::ModelConfig& config);

// Note [Units of adapters]
// The adapters of a layer are a unit of their own, beside the layer's, which is frozen: so it has
// neither gradient nor moments nor a place in a bucket by what frozen units have anyway, and the
// adapters are sharded, reduced, saved and exported as any unit is. The units of adapters come
// after all of the model, by layer, so that units of the model and blocks have the same numbers.
Unit adapter_unit(const common::ModelConfig& config, const common::LoraConfig& lora, int64_t layer);

// All units in block order: embedding, layers, head.
std::vector<Unit> model_units(const common::ModelConfig& config);
// The same, then the units of adapters if there are any.
std::vector<Unit> model_units(const common::ModelConfig& config, const common::LoraConfig& lora);

}  // namespace lockstep::runtime

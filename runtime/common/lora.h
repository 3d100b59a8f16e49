// Low-rank adapters (LoRA) of a model whose own weights are frozen: which modules have one, and
// their tensors. Words and names are PEFT's.
// Shapes: r rank; of a module y = x W^T: A [r, in], B [out, r], and y += scale (x A^T) B^T.
// Source: LoRA, arXiv:2106.09685; rsLoRA, arXiv:2312.03732; peft, src/peft/tuners/lora.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/common/model_config.h"
#include "runtime/common/model_tensors.h"

namespace lockstep::common {

// In place of names of modules: all of them.
inline constexpr std::string_view kAllLinear = "all-linear";

struct LoraConfig {
  int64_t rank = 0;  // 0: there are no adapters
  double alpha = 32;
  double dropout = 0;  // of what goes into A; off in evaluation
  bool use_rslora = false;
  std::vector<std::string> targets;  // as `q_proj` or `mlp.c_proj`; or kAllLinear alone
  bool merge = false;                // the export is the model with the adapters added to it
  std::string path;                  // a PEFT directory to go on from; empty: fresh adapters

  bool is_on() const { return rank > 0; }
  // alpha / rank; with rsLoRA alpha / sqrt(rank).
  double scale() const;
};

// A module of a layer that may have an adapter: columns [out_begin, out_begin + out) of a product.
struct LinearModule {
  std::string path;                       // in the model: "model.layers.3.self_attn.q_proj"
  std::string place;                      // in the layer: "self_attn.q_proj"
  TensorRole product = TensorRole::kQkv;  // kQkv, kAttentionOut, kGateUp or kDown
  int64_t in = 0;
  int64_t out = 0;
  int64_t out_begin = 0;
};

// Those of a layer, in the order of its tensors. Experts are none: in Transformers their weights
// are parameters of no module.
std::vector<LinearModule> linear_modules(const ModelConfig& config, int64_t layer);

// Those of them that `lora` names; empty without adapters.
std::vector<LinearModule> adapted_modules(const ModelConfig& config, const LoraConfig& lora,
                                          int64_t layer);

// Whether `target` names the module: by its place, or the last words of it.
bool is_target(std::string_view target, const LinearModule& module);

// The last word of every module's place, once each: what users name.
std::vector<std::string> module_names(const ModelConfig& config);

// A and B of every adapted module of a layer, module by module, under PEFT's names. A starts
// uniformly in +-1/sqrt(in), which is Kaiming's for a = sqrt(5); B with zeros.
std::vector<ModelTensor> adapter_tensors(const ModelConfig& config, const LoraConfig& lora,
                                         int64_t layer);

}  // namespace lockstep::common

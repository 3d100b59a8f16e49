#include "runtime/model/unit.h"

#include <utility>

namespace lockstep::runtime {
namespace {

Unit lay_out(std::string name, std::vector<common::ModelTensor> tensors) {
  Unit unit;
  unit.name = std::move(name);
  unit.tensors.reserve(tensors.size());
  for (common::ModelTensor& tensor : tensors) {
    const int64_t num_elems = tensor.num_elems();
    unit.tensors.push_back(UnitTensor{.name = std::move(tensor.name),
                                      .shape = std::move(tensor.shape),
                                      .begin_elem = unit.num_elems,
                                      .num_elems = num_elems,
                                      .init = tensor.first,
                                      .init_scale = tensor.first_scale,
                                      .role = tensor.role});
    unit.num_elems += num_elems;
  }
  return unit;
}

}  // namespace

Unit embedding_unit(const common::ModelConfig& config) {
  return lay_out("embedding", common::embedding_tensors(config));
}

Unit layer_unit(const common::ModelConfig& config, int64_t index) {
  return lay_out("layer." + std::to_string(index), common::layer_tensors(config, index));
}

Unit head_unit(const common::ModelConfig& config) {
  return lay_out("head", common::head_tensors(config));
}

Unit adapter_unit(const common::ModelConfig& config, const common::LoraConfig& lora,
                  int64_t layer) {
  return lay_out("layer." + std::to_string(layer) + ".lora",
                 common::adapter_tensors(config, lora, layer));
}

std::vector<Unit> model_units(const common::ModelConfig& config) {
  std::vector<Unit> units;
  units.push_back(embedding_unit(config));
  for (int64_t i = 0; i < config.num_hidden_layers; ++i) units.push_back(layer_unit(config, i));
  units.push_back(head_unit(config));
  return units;
}

std::vector<Unit> model_units(const common::ModelConfig& config, const common::LoraConfig& lora) {
  std::vector<Unit> units = model_units(config);
  for (int64_t i = 0; lora.is_on() && i < config.num_hidden_layers; ++i) {
    units.push_back(adapter_unit(config, lora, i));
  }
  return units;
}

}  // namespace lockstep::runtime

#include "runtime/common/lora.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "runtime/common/model_family.h"

namespace lockstep::common {
namespace {

constexpr std::string_view kWeight = ".weight";
constexpr const char* kPeftPrefix = "base_model.model.";

bool may_be_adapted(TensorRole role, bool has_experts) {
  if (role == TensorRole::kQkv || role == TensorRole::kAttentionOut) return true;
  return !has_experts && (role == TensorRole::kGateUp || role == TensorRole::kDown);
}

std::string last_word(const std::string& place) {
  return place.substr(place.rfind('.') + 1);
}

}  // namespace

double LoraConfig::scale() const {
  const auto r = static_cast<double>(rank);
  return alpha / (use_rslora ? std::sqrt(r) : r);
}

std::vector<LinearModule> linear_modules(const ModelConfig& config, int64_t layer) {
  const bool is_in_by_out = family_of(config).naming == Naming::kGpt2;
  const std::string number = std::string(".").append(std::to_string(layer)).append(".");
  std::map<TensorRole, int64_t> num_columns;  // of the products so far
  std::vector<LinearModule> modules;
  for (const ModelTensor& tensor : layer_tensors(config, layer)) {
    if (!may_be_adapted(tensor.role, config.has_experts())) continue;
    LinearModule module{.path = tensor.name.substr(0, tensor.name.size() - kWeight.size()),
                        .product = tensor.role,
                        .in = tensor.shape.at(is_in_by_out ? 0 : 1),
                        .out = tensor.shape.at(is_in_by_out ? 1 : 0)};
    module.place = module.path.substr(module.path.find(number) + number.size());
    module.out_begin = num_columns[tensor.role];
    num_columns[tensor.role] += module.out;
    modules.push_back(std::move(module));
  }
  return modules;
}

bool is_target(std::string_view target, const LinearModule& module) {
  return module.place == target || module.place.ends_with(std::string(".").append(target));
}

std::vector<LinearModule> adapted_modules(const ModelConfig& config, const LoraConfig& lora,
                                          int64_t layer) {
  if (!lora.is_on()) return {};
  std::vector<LinearModule> modules = linear_modules(config, layer);
  std::erase_if(modules, [&lora](const LinearModule& module) {
    return std::none_of(lora.targets.begin(), lora.targets.end(), [&](const std::string& target) {
      return target == kAllLinear || is_target(target, module);
    });
  });
  return modules;
}

std::vector<std::string> module_names(const ModelConfig& config) {
  std::vector<std::string> names;
  for (const LinearModule& module : linear_modules(config, 0)) {
    const std::string name = last_word(module.place);
    if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
  }
  return names;
}

std::vector<ModelTensor> adapter_tensors(const ModelConfig& config, const LoraConfig& lora,
                                         int64_t layer) {
  std::vector<ModelTensor> tensors;
  for (const LinearModule& module : adapted_modules(config, lora, layer)) {
    const std::string stem = kPeftPrefix + module.path;
    tensors.push_back({.name = stem + ".lora_A.weight",
                       .shape = {lora.rank, module.in},
                       .role = TensorRole::kAdapterA,
                       .first = FirstValues::kUniform,
                       .first_scale = 1 / std::sqrt(static_cast<double>(module.in))});
    tensors.push_back({.name = stem + ".lora_B.weight",
                       .shape = {module.out, lora.rank},
                       .role = TensorRole::kAdapterB,
                       .first = FirstValues::kZeros});
  }
  return tensors;
}

}  // namespace lockstep::common

#include "runtime/train/merged_weights.h"

#include <algorithm>
#include <utility>

#include "runtime/common/model_family.h"
#include "runtime/model/unit.h"

namespace lockstep::runtime {

using common::LinearModule;
using common::Result;

Result<MergedWeights> MergedWeights::open(const PretrainedWeights& base, const std::string& adapter,
                                          const common::ModelConfig& config,
                                          const common::LoraConfig& lora) {
  std::vector<Unit> units;
  units.reserve(static_cast<std::size_t>(config.num_hidden_layers));
  for (int64_t layer = 0; layer < config.num_hidden_layers; ++layer) {
    units.push_back(adapter_unit(config, lora, layer));
  }
  ASSIGN_OR_RETURN(const PretrainedWeights stored, PretrainedWeights::open_adapter(adapter, units));
  MergedWeights merged(base);
  merged.rank_ = lora.rank;
  merged.scale_ = static_cast<float>(lora.scale());
  merged.is_in_by_out_ = common::family_of(config).naming == common::Naming::kGpt2;
  merged.deltas_.resize(static_cast<std::size_t>(config.num_hidden_layers) + 2);
  merged.adapters_.reserve(units.size());
  for (const Unit& unit : units) {
    const auto layer = static_cast<int64_t>(merged.adapters_.size());
    std::vector<float>& values =
        merged.adapters_.emplace_back(static_cast<std::size_t>(unit.num_elems));
    RETURN_IF_ERROR(stored.read(layer, 0, values));
    const Unit own = layer_unit(config, layer);
    const UnitTensor* tensor = unit.tensors.data();  // A, then B
    for (const LinearModule& module : common::adapted_modules(config, lora, layer)) {
      const auto weight = std::find_if(
          own.tensors.begin(), own.tensors.end(),
          [&module](const UnitTensor& found) { return found.name == module.path + ".weight"; });
      merged.deltas_[static_cast<std::size_t>(layer) + 1].push_back(
          {.begin_elem = weight->begin_elem,
           .in = module.in,
           .out = module.out,
           .a = values.data() + tensor[0].begin_elem,
           .b = values.data() + tensor[1].begin_elem});
      tensor += 2;
    }
  }
  return merged;
}

// The stored matrix has rows of `width`; element (row, column) is W[row][column], of gpt2
// transposed.
void MergedWeights::add(const Delta& delta, int64_t begin_elem, std::span<float> out) const {
  const int64_t width = is_in_by_out_ ? delta.out : delta.in;
  for (std::size_t i = 0; i < out.size(); ++i) {
    const int64_t elem = begin_elem + static_cast<int64_t>(i);
    const int64_t row = elem / width;
    const int64_t column = elem % width;
    const float* const b = delta.b + (is_in_by_out_ ? column : row) * rank_;
    const float* const a = delta.a + (is_in_by_out_ ? row : column);
    float sum = 0;
    for (int64_t r = 0; r < rank_; ++r) sum += b[r] * a[r * delta.in];
    out[i] += scale_ * sum;
  }
}

Result<void> MergedWeights::read(int64_t unit, int64_t begin_elem, std::span<float> out) const {
  RETURN_IF_ERROR(base_->read(unit, begin_elem, out));
  const int64_t end_elem = begin_elem + static_cast<int64_t>(out.size());
  for (const Delta& delta : deltas_.at(static_cast<std::size_t>(unit))) {
    const int64_t begin = std::max(begin_elem, delta.begin_elem);
    const int64_t end = std::min(end_elem, delta.begin_elem + delta.in * delta.out);
    if (begin >= end) continue;
    add(delta, begin - delta.begin_elem,
        out.subspan(static_cast<std::size_t>(begin - begin_elem),
                    static_cast<std::size_t>(end - begin)));
  }
  return {};
}

}  // namespace lockstep::runtime

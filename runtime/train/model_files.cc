#include "runtime/train/model_files.h"

#include <algorithm>
#include <filesystem>
#include <utility>

#include <nlohmann/json.hpp>

#include "runtime/common/config_json.h"
#include "runtime/common/hub_inputs.h"
#include "runtime/common/peft_config.h"
#include "runtime/kernels/kernel_table.h"
#include "runtime/train/run_error.h"

namespace lockstep::runtime {

using common::Result;

namespace {

Result<void> write_carried(Disk& disk, const std::string& folder, const CarriedFiles& carried) {
  for (const auto& [name, text] : carried.files) {
    RETURN_IF_ERROR(replace_file(disk, folder, name, text));
  }
  return {};
}

}  // namespace

SafetensorsPlan plan_model_file(std::span<const Unit> units, common::DType dtype) {
  std::vector<UnitLayout> layouts;
  for (const Unit& unit : units) {
    UnitLayout layout{.num_elems = unit.num_elems};
    for (const UnitTensor& tensor : unit.tensors) {
      layout.tensors.push_back({.name = tensor.name,
                                .shape = tensor.shape,
                                .begin_elem = tensor.begin_elem,
                                .num_elems = tensor.num_elems});
    }
    layouts.push_back(std::move(layout));
  }
  return value_or_raise(plan_safetensors(layouts, dtype), common::ExitCode::kInternal);
}

Result<void> write_weights(SafetensorsWriter& writer, common::DType dtype, int64_t unit,
                           int64_t begin_elem, std::span<const float> weights) {
  if (dtype == common::DType::kFp32) {
    return writer.write_range(unit, begin_elem, std::as_bytes(weights));
  }
  constexpr std::size_t kPieceElems = std::size_t{1} << 20U;
  std::vector<uint16_t> piece(std::min(kPieceElems, weights.size()));
  for (std::size_t begin = 0; begin < weights.size(); begin += kPieceElems) {
    const std::size_t count = std::min(kPieceElems, weights.size() - begin);
    chosen_kernels().narrow(static_cast<int64_t>(count), weights.data() + begin,
                            {dtype, piece.data()});
    RETURN_IF_ERROR(writer.write_range(unit, begin_elem + static_cast<int64_t>(begin),
                                       std::as_bytes(std::span(piece).first(count))));
  }
  return {};
}

Result<void> write_beside_weights(Disk& disk, const std::string& folder,
                                  const common::ModelConfig& model, common::DType dtype,
                                  const CarriedFiles& carried) {
  RETURN_IF_ERROR(write_carried(disk, folder, carried));
  return replace_file(disk, folder, "config.json",
                      common::encode_config_json(model, dtype, carried.special_ids));
}

Result<void> write_beside_adapters(Disk& disk, const std::string& folder,
                                   const common::TrainConfig& config, const std::string& train_json,
                                   const CarriedFiles& carried) {
  RETURN_IF_ERROR(write_carried(disk, folder, carried));
  std::string base = std::filesystem::absolute(config.model_source.path).lexically_normal();
  for (const common::HubInput& input : common::hub_inputs(nlohmann::json::parse(train_json))) {
    if (input.field == "model.path") base = input.reference.repo;
  }
  return replace_file(disk, folder, common::kAdapterConfigFile,
                      common::encode_adapter_config(config.model, config.lora, base));
}

}  // namespace lockstep::runtime

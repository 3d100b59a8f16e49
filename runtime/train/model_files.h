// The files of an exported model, which the end of a run and `lockstep export` write alike.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "runtime/checkpoint/disk.h"
#include "runtime/checkpoint/safetensors.h"
#include "runtime/common/model_config.h"
#include "runtime/common/train_config.h"
#include "runtime/model/unit.h"
#include "runtime/train/carried_files.h"

namespace lockstep::runtime {

// The layout of a safetensors file of `units`. Throws RunError(kInternal) for such that are not
// tiled.
SafetensorsPlan plan_model_file(std::span<const Unit> units, common::DType dtype);

// Writes fp32 `weights` of unit `unit` from element `begin_elem` on, rounded to `dtype`, which the
// file was planned for, a piece at a time.
common::Result<void> write_weights(SafetensorsWriter& writer, common::DType dtype, int64_t unit,
                                   int64_t begin_elem, std::span<const float> weights);

// Writes what lies beside the weights: config.json and the carried files.
common::Result<void> write_beside_weights(Disk& disk, const std::string& folder,
                                          const common::ModelConfig& model, common::DType dtype,
                                          const CarriedFiles& carried);

// The same beside adapters: adapter_config.json, which names what they belong to, the repository on
// the hub or the folder that the job names, and the carried files.
//   train_json: of the job, references to the hub as written.
common::Result<void> write_beside_adapters(Disk& disk, const std::string& folder,
                                           const common::TrainConfig& config,
                                           const std::string& train_json,
                                           const CarriedFiles& carried);

}  // namespace lockstep::runtime

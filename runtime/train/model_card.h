// README.md of an exported model: what the Hugging Face hub shows of it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "runtime/checkpoint/manifest.h"
#include "runtime/common/dtype.h"
#include "runtime/common/train_config.h"

namespace lockstep::runtime {

struct CardFacts {
  Manifest manifest;          // of the checkpoint whose weights they are; its train_json is read
  common::TrainConfig train;  // decoded
  common::DType dtype = common::DType::kFp32;  // of the weights
  int64_t num_parameters = 0;
  std::optional<double> loss;  // of the checkpoint's step, if it was logged
};

// The text: front matter with the base model and data sets that came from the hub, then what the
// weights are of, in a table. Names no path of a machine: data that came from one is told by its
// fingerprint.
std::string model_card(const CardFacts& facts);

}  // namespace lockstep::runtime

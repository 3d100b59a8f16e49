// The inputs of a job that are on the Hugging Face hub, and what stands for them on a machine.
#pragma once

#include <map>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "runtime/common/hub_reference.h"

namespace lockstep::common {

// A field of `train` that holds a reference.
struct HubInput {
  std::string field;  // "model.path", "distill.teacher", "data.sources[0].path", ...
  std::string text;   // as written: "hf://..."
  HubReference reference;
};

// Those of `train`, models first; whatever is no reference is passed over.
std::vector<HubInput> hub_inputs(const nlohmann::json& train);

// Texts for fields of `train`, by the names above.
using FieldTexts = std::map<std::string, std::string>;

// The references of `train`, as they are written.
FieldTexts texts_of(const std::vector<HubInput>& inputs);

// `train` with these fields.
nlohmann::json with_fields(nlohmann::json train, const FieldTexts& texts);

}  // namespace lockstep::common

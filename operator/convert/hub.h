// Names on the Hugging Face hub, and what becomes of them: references, hf://ORG/NAME.
#pragma once

#include "operator/convert/table.h"

namespace lockstep::convert {

// A model to start from, by folder or by name on the hub: model.path, and its tokenizer.
Verdict take_pretrained(const nlohmann::json& value, Draft& draft);

// A model that `field` names: a folder, or a name on the hub.
Verdict take_model(const std::string& field, const nlohmann::json& value, Draft& draft);

// Files to train on, by path or by name on the hub; `field` is below spec.
Verdict take_dataset(const std::string& field, const nlohmann::json& value, Draft& draft);

// What the other tool calls the run: metadata.name.
Verdict take_job_name(const nlohmann::json& value, Draft& draft);

}  // namespace lockstep::convert

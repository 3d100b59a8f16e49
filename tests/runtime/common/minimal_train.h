// A `spec.train` for tests to vary.
#pragma once

#include <nlohmann/json.hpp>

namespace lockstep::common {

// The smallest valid configuration.
inline nlohmann::json minimal() {
  return nlohmann::json::parse(R"({
    "model": {"config": {"vocab_size": 256, "hidden_size": 64, "intermediate_size": 128,
                         "num_hidden_layers": 2, "num_attention_heads": 4}},
    "data": {"train": "corpus", "sequenceLength": 32},
    "batch": {"globalBatchSize": 8},
    "steps": 100})");
}

// minimal() with one field set.
inline nlohmann::json with(const char* pointer, const nlohmann::json& value) {
  nlohmann::json train = minimal();
  train[nlohmann::json::json_pointer(pointer)] = value;
  return train;
}

}  // namespace lockstep::common

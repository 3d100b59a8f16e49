// Relations between the fields of `train`, each field being right by itself.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include <nlohmann/json.hpp>

#include "runtime/common/problem.h"
#include "runtime/common/train_bounds.h"

namespace lockstep::common {

// Reads fields of `train` by path and gathers what is wrong.
struct Relations {
  const nlohmann::json& train;
  const std::string& prefix;
  Problems problems;

  const nlohmann::json* find(const std::string& pointer) const {
    const nlohmann::json::json_pointer at("/" + pointer);
    return train.is_object() && train.contains(at) ? &train.at(at) : nullptr;
  }
  // Nothing unless the field is an integer within its bounds: only then relations mean anything.
  std::optional<int64_t> integer(const std::string& pointer, int64_t least = 1,
                                 int64_t most = kMaxFactor) const {
    const nlohmann::json* field = find(pointer);
    if (field == nullptr || !field->is_number_integer()) return std::nullopt;
    const auto value = field->get<int64_t>();
    return value >= least && value <= most ? std::optional(value) : std::nullopt;
  }
  // `field` starts with a dot.
  void report(const std::string& field, std::string message, std::string hint = "") {
    problems.push_back({.path = prefix.empty() ? field.substr(1) : prefix + field,
                        .message = std::move(message),
                        .hint = std::move(hint)});
  }
};

// What bounds the run and acts by the number of the step: its length, the evaluation, the optimizer
// and its schedule, and the profile.
void check_schedule(Relations& out);

// What adapters ask of the model, as far as the job tells it.
void check_lora(Relations& out);
// Whether the model has the modules that `lora` names.
//   train: with the model of its model.path as model.config, all of it right but for that.
Problems check_lora_targets(const nlohmann::json& train, const std::string& prefix);

// Whether the data comes from somewhere, and sources have weights that mean something together.
void check_sources(Relations& out);

// What the task asks of tokenizer and data.
void check_task(Relations& out);
// What tasks that learn from pairs ask, and what asks for them.
void check_preference(Relations& out);
// What distillation asks, and what asks for it.
void check_distill(Relations& out);

// Whether paths that begin with hf:// are references to the hub, each to what its field is for.
void check_hub_references(Relations& out);

}  // namespace lockstep::common

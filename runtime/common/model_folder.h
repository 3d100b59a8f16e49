// `model.path`: a Hugging Face directory, as far as it needs no weights to be looked at.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <string_view>

#include <nlohmann/json.hpp>

#include "runtime/common/result.h"

namespace lockstep::common {

// What a tokenizer and generation need besides the model: carried over to an export. The first make
// tokens of text, the others say how they are used.
inline constexpr std::array<std::string_view, 4> kVocabularyFiles = {
    "tokenizer.json", "tokenizer.model", "vocab.json", "merges.txt"};
inline constexpr std::array<std::string_view, 6> kTokenSettingsFiles = {
    "added_tokens.json",  "tokenizer_config.json",  "chat_template.jinja",
    "chat_template.json", "generation_config.json", "special_tokens_map.json"};

// The first file of `folder` that makes tokens of text; nothing if it holds none.
std::optional<std::string> find_tokenizer(const std::string& folder);

// `train` with the model that its model.path holds as its model.config, beside the path; `train` as
// it is if it has no path.
//   train: after check_and_default(train_fields(), ...).
// Errors: kNotFound without a config.json, or for a reference to the hub; kInvalidArgument for one
// that makes no model, or one beyond the bounds of a job's. Messages name the file and its key.
Result<nlohmann::json> with_model_of_path(const nlohmann::json& train);

// `train` as if its model.config had been given inline: without path and init, of which a tokenizer
// keeps the path, and without lora, which needs one. For checks of a model that is known.
nlohmann::json as_inline_model(nlohmann::json train);

}  // namespace lockstep::common

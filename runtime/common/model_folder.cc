#include "runtime/common/model_folder.h"

#include <filesystem>
#include <utility>

#include "runtime/common/config_json.h"
#include "runtime/common/hub_reference.h"
#include "runtime/common/model_json.h"
#include "runtime/common/train_fields.h"

namespace lockstep::common {

using nlohmann::json;

std::optional<std::string> find_tokenizer(const std::string& folder) {
  for (const std::string_view name : kVocabularyFiles) {
    std::error_code unseen;
    std::string path = folder + "/" + std::string(name);
    if (std::filesystem::exists(path, unseen)) return path;
  }
  return std::nullopt;
}

Result<json> with_model_of_path(const json& train) {
  const json::json_pointer place("/model/path");
  if (!train.contains(place)) return train;
  const auto path = train.at(place).get<std::string>();
  if (is_hub_reference(path)) {
    return Error{ErrorCode::kNotFound, path + " is on the hub: its config.json is not known here",
                 "`lockstep fetch " + path + "` prints the folder it comes to: name that"};
  }
  const std::string file = path + "/config.json";
  ASSIGN_OR_RETURN(const ModelConfig model, read_config_json(file));
  const Field& table = *find_child(*find_child(train_fields(), "model"), "config");
  Checked checked = check_and_default(table, encode_model_fields(model), file);
  if (!checked.problems.empty()) {
    const Problem& problem = checked.problems.front();
    std::string where = problem.path;
    if (where.starts_with(file + ".")) where.replace(file.size(), 1, ": ");
    return Error{ErrorCode::kInvalidArgument, where + ": " + problem.message, problem.hint};
  }
  json known = train;
  known["model"]["config"] = std::move(checked.value);
  return known;
}

json as_inline_model(json train) {
  const auto model = train.find("model");
  if (model == train.end() || !model->is_object()) return train;
  const json::json_pointer type("/tokenizer/type");
  if (model->contains("path") && train.contains(type) && train.at(type) == "hf") {
    train["tokenizer"].emplace("path", model->at("path"));
  }
  model->erase("path");
  model->erase("init");
  train.erase("lora");
  return train;
}

}  // namespace lockstep::common

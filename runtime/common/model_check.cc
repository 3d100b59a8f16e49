#include "runtime/common/model_check.h"

#include "runtime/common/model_json.h"
#include "runtime/common/train_config.h"
#include "runtime/common/train_fields.h"

namespace lockstep::common {

using nlohmann::json;

std::optional<ModelProblem> find_model_problem(const json& train) {
  const json::json_pointer place("/model/config");
  if (!train.is_object() || !train.contains(place)) return std::nullopt;
  const Field& field = *find_child(*find_child(train_fields(), "model"), "config");
  const Checked checked = check_and_default(field, train.at(place), "");
  if (!checked.problems.empty()) return std::nullopt;
  json defaulted = train;
  defaulted[place] = checked.value;
  const Result<ModelConfig> config = decode_model_json(resolve_train(defaulted, 1).train.at(place));
  if (config) return std::nullopt;
  const Error& error = config.error();
  const size_t colon = error.message.find(": ");  // "KEY: what is wrong"
  return ModelProblem{error.message.substr(0, colon), error.message.substr(colon + 2), error.hint};
}

}  // namespace lockstep::common

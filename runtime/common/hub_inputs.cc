#include "runtime/common/hub_inputs.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "runtime/common/document.h"
#include "runtime/common/train_relations.h"

namespace lockstep::common {
namespace {

using nlohmann::json;

using HubField = std::pair<std::string, HubKind>;

// A field's name may have an index in brackets.
json::json_pointer pointer_of_field(std::string field) {
  std::erase(field, ']');
  std::replace(field.begin(), field.end(), '.', '/');
  std::replace(field.begin(), field.end(), '[', '/');
  return json::json_pointer("/" + field);
}

// The fields of `train` that may hold a reference.
std::vector<HubField> hub_fields(const json& train) {
  std::vector<HubField> fields = {{"model.path", HubKind::kModel},
                                  {"tokenizer.path", HubKind::kModel},
                                  {"distill.teacher", HubKind::kModel},
                                  {"data.train", HubKind::kDataset}};
  const json::json_pointer sources("/data/sources");
  if (train.is_object() && train.contains(sources)) {
    for (std::size_t i = 0; i < train.at(sources).size(); ++i) {
      fields.emplace_back(item_path("data.sources", i) + ".path", HubKind::kDataset);
    }
  }
  fields.emplace_back("data.validation", HubKind::kDataset);
  return fields;
}

// What `train` has in `field` if that begins as a reference does; else empty.
std::string reference_in(const json& train, const std::string& field) {
  const json::json_pointer place = pointer_of_field(field);
  if (!train.is_object() || !train.contains(place) || !train.at(place).is_string()) return "";
  auto text = train.at(place).get<std::string>();
  return is_hub_reference(text) ? text : "";
}

}  // namespace

std::vector<HubInput> hub_inputs(const json& train) {
  std::vector<HubInput> inputs;
  for (const auto& [field, kind] : hub_fields(train)) {
    std::string text = reference_in(train, field);
    if (text.empty()) continue;
    Result<HubReference> reference = parse_hub_reference(text, kind);
    if (reference) inputs.push_back({field, std::move(text), std::move(reference).value()});
  }
  return inputs;
}

FieldTexts texts_of(const std::vector<HubInput>& inputs) {
  FieldTexts texts;
  for (const HubInput& input : inputs) texts[input.field] = input.text;
  return texts;
}

json with_fields(json train, const FieldTexts& texts) {
  for (const auto& [field, text] : texts) train[pointer_of_field(field)] = text;
  return train;
}

void check_hub_references(Relations& out) {
  for (const auto& [field, kind] : hub_fields(out.train)) {
    const std::string text = reference_in(out.train, field);
    if (text.empty()) continue;
    const Result<HubReference> reference = parse_hub_reference(text, kind);
    if (reference) continue;
    out.report(std::string(".").append(field), reference.error().message, reference.error().hint);
  }
}

}  // namespace lockstep::common

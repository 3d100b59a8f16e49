#include "operator/convert/hub.h"

#include <algorithm>

#include "operator/api/manifest.h"
#include "runtime/common/hub_reference.h"

namespace lockstep::convert {
namespace {

using nlohmann::json;

std::string word_of(const json& value) {
  return value.is_string() ? value.get<std::string>() : "";
}

bool ends_with_any(const std::string& text, const std::vector<std::string>& ends) {
  return std::any_of(ends.begin(), ends.end(),
                     [&text](const std::string& end) { return text.ends_with(end); });
}

std::string reference_to(const std::string& name) {
  return std::string(common::kHubScheme) + name;
}

// "ORG/NAME", which is also what a folder may be called: the tools look on the disk first.
bool is_hub_name(const std::string& text) {
  const bool one_slash = std::count(text.begin(), text.end(), '/') == 1;
  return one_slash && text.find_first_of("./~") != 0 && !text.ends_with('/') &&
         !ends_with_any(text, {".jsonl", ".json", ".txt", ".csv", ".parquet", ".tokens"}) &&
         common::parse_hub_reference(reference_to(text), common::HubKind::kDataset);
}

}  // namespace

Verdict take_pretrained(const json& value, Draft& draft) {
  if (!word_of(value).empty()) draft.map("train.tokenizer.type", "hf");
  return take_model("train.model.path", value, draft);
}

Verdict take_model(const std::string& field, const json& value, Draft& draft) {
  const std::string model = word_of(value);
  if (model.empty()) return broken("must name a model, found " + value.dump());
  if (!is_hub_name(model)) return draft.map(field, model);
  return draft.change(field, reference_to(model),
                      "fetched from the hub when ranks start; a folder is named as it is");
}

Verdict take_dataset(const std::string& field, const json& value, Draft& draft) {
  const std::string data = word_of(value);
  if (data.empty()) return broken("must name data, found " + value.dump());
  if (data.ends_with(".arrow")) {
    return refused("data come as text, rows or tokens here; save them as Parquet before");
  }
  if (!is_hub_name(data)) return draft.map(field, data);
  return draft.change(field, reference_to(data), "fetched from the hub when ranks start");
}

Verdict take_job_name(const json& value, Draft& draft) {
  const std::string given = word_of(value);
  if (given.empty()) return broken("must be a name, found " + value.dump());
  const std::string name = api::job_name_from_file(given);
  draft.metadata["name"] = name;
  if (name == given) return mapped("metadata.name");
  return changed("metadata.name is " + name + ": lower-case letters, digits and '-'");
}

}  // namespace lockstep::convert

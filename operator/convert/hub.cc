#include "operator/convert/hub.h"

#include <algorithm>

#include "operator/api/manifest.h"

namespace lockstep::convert {
namespace {

using nlohmann::json;

bool ends_with_any(const std::string& text, const std::vector<std::string>& ends) {
  return std::any_of(ends.begin(), ends.end(),
                     [&text](const std::string& end) { return text.ends_with(end); });
}

// "ORG/NAME", which is also what a folder may be called: the tools look on the disk first.
bool is_hub_name(const std::string& text) {
  const bool one_slash = std::count(text.begin(), text.end(), '/') == 1;
  return one_slash && text.find_first_of("./~") != 0 && !text.ends_with('/') &&
         !ends_with_any(text, {".jsonl", ".json", ".txt", ".csv", ".parquet", ".tokens"});
}

std::string name_of(const std::string& hub_name) {
  return hub_name.substr(hub_name.find('/') + 1);
}

}  // namespace

Verdict take_pretrained(const json& value, Draft& draft) {
  if (!value.is_string() || value == "") return broken("must name a model, found " + value.dump());
  const auto model = value.get<std::string>();
  if (draft.map("train.tokenizer.type", "hf").fate == Fate::kRefused) {
    draft.fill_in("train.tokenizer.type", "bytes",
                  "the model's own tokenizer is not supported by this version");
  }
  if (!is_hub_name(model)) return draft.map("train.model.path", model);
  return draft.change("train.model.path", "/models/" + name_of(model),
                      "a folder here: download " + model + " into it");
}

Verdict take_dataset(const std::string& field, const json& value, Draft& draft) {
  if (!value.is_string() || value == "") return broken("must name data, found " + value.dump());
  const auto data = value.get<std::string>();
  if (ends_with_any(data, {".csv", ".parquet", ".arrow"})) {
    return refused("data come as text, JSON lines or tokens here; convert them before");
  }
  if (!is_hub_name(data)) return draft.map(field, data);
  return draft.change(field, "/data/" + name_of(data) + "/*.jsonl",
                      "files here: download " + data + " as JSON lines");
}

Verdict take_job_name(const json& value, Draft& draft) {
  if (!value.is_string() || value == "") return broken("must be a name, found " + value.dump());
  const std::string name = api::job_name_from_file(value.get<std::string>());
  draft.metadata["name"] = name;
  if (name == value.get<std::string>()) return mapped("metadata.name");
  return changed("metadata.name is " + name + ": lower-case letters, digits and '-'");
}

}  // namespace lockstep::convert

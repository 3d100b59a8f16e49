#include "operator/convert/hub.h"

#include <algorithm>

#include "operator/api/manifest.h"

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

// "ORG/NAME", which is also what a folder may be called: the tools look on the disk first.
bool is_hub_name(const std::string& text) {
  const bool one_slash = std::count(text.begin(), text.end(), '/') == 1;
  return one_slash && text.find_first_of("./~") != 0 && !text.ends_with('/') &&
         !ends_with_any(text, {".jsonl", ".json", ".txt", ".csv", ".parquet", ".tokens"});
}

std::string name_of(const std::string& hub_name) {
  return hub_name.substr(hub_name.find('/') + 1);
}

// A name on the hub as a path here, which the user has to fill.
Verdict take_folder(const std::string& field, const std::string& path, const std::string& what,
                    Draft& draft) {
  Verdict verdict = draft.change(field, path, what);
  if (verdict.fate == Fate::kChanged) {
    draft.remarks.push_back({.field = field, .fill_in = true, .text = what});
  }
  return verdict;
}

}  // namespace

Verdict take_pretrained(const json& value, Draft& draft) {
  const std::string model = word_of(value);
  if (model.empty()) return broken("must name a model, found " + value.dump());
  draft.map("train.tokenizer.type", "hf");
  if (!is_hub_name(model)) return draft.map("train.model.path", model);
  return take_folder("train.model.path", "/models/" + name_of(model),
                     "download " + model + " into it", draft);
}

Verdict take_dataset(const std::string& field, const json& value, Draft& draft) {
  const std::string data = word_of(value);
  if (data.empty()) return broken("must name data, found " + value.dump());
  if (ends_with_any(data, {".csv", ".parquet", ".arrow"})) {
    return refused("data come as text, JSON lines or tokens here; convert them before");
  }
  if (!is_hub_name(data)) return draft.map(field, data);
  return take_folder(field, "/data/" + name_of(data) + "/*.jsonl",
                     "download " + data + " as JSON lines", draft);
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

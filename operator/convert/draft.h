// A TrainingJob in the making. What is put into it is held against the table of fields, so a key is
// mapped exactly when this version can honour it, and refused in the table's words when it cannot.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "operator/convert/conversion.h"

namespace lockstep::convert {

// What became of a key; `broken` says that the source itself is wrong.
struct Verdict {
  Fate fate = Fate::kMapped;
  std::string field{};
  std::string text{};
  bool broken = false;
};

Verdict mapped(std::string text = "");
Verdict changed(std::string text);
Verdict refused(std::string text);
Verdict broken(std::string text);

struct Draft {            // NOLINT(bugprone-exception-escape): json moves without throwing
  nlohmann::json source;  // the whole document, for keys that depend on others
  nlohmann::json spec = nlohmann::json::object();
  nlohmann::json metadata = nlohmann::json::object();
  std::vector<Remark> remarks{};

  // Puts `value` at `field` (below spec). Refused if this version does not have the field or the
  // value, or if another key has put something else there; broken if the type is wrong.
  Verdict map(const std::string& field, const nlohmann::json& value, std::string text = "");
  // map() for what means something else than it did; refused as there.
  Verdict change(const std::string& field, const nlohmann::json& value, std::string text);
  // Puts what the other tool does unless told otherwise, unless the field is there. Refused if it
  // does not fit, which whoever computed the value has to pass on.
  Verdict assume(const std::string& field, const nlohmann::json& value, std::string text);
  // Puts a value that the user has to look at, unless the field is there.
  void fill_in(const std::string& field, const nlohmann::json& value, std::string text);

  // The field of the job, or null.
  const nlohmann::json* find(const std::string& field) const;
  // The key of the source by its path, "a.b"; null if it is absent or null.
  const nlohmann::json* key(const std::string& path) const;
  // key() as an integer where it is one.
  std::optional<int64_t> count(const std::string& path) const;
  // key() if it is a number, a string.
  const nlohmann::json* number(const std::string& path) const;
  std::string text(const std::string& path) const;
};

// Ends a conversion: it has the draft's job and remarks from here on.
void move_into(Conversion& conversion, Draft draft);

// The value below `root` at "a.b", or null; a JSON null counts as absent.
const nlohmann::json* find_path(const nlohmann::json& root, const std::string& path);

// The text at `key` of an object; empty if it is no text, or `value` no object.
std::string text_at(const nlohmann::json& value, const std::string& key);

// Why `value` cannot stand at `field` (below spec); empty if it can. `wrong_type`: it never could.
struct Misfit {
  std::string text;
  bool wrong_type = false;
};
Misfit misfit(const std::string& field, const nlohmann::json& value);

// True for "auto", which Transformers and Accelerate fill in.
bool is_auto(const nlohmann::json& value);
// True for what switches a feature off: null, false, 0, "", "none", "no", "off", [] and {}.
bool is_off(const nlohmann::json& value);
// The value as an integer where it is one: 5e8 is.
std::optional<int64_t> whole(const nlohmann::json& value);

}  // namespace lockstep::convert

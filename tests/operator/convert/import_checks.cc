#include "tests/operator/convert/import_checks.h"

#include <algorithm>
#include <set>

#include <gtest/gtest.h>

#include "operator/api/manifest.h"
#include "operator/convert/draft.h"
#include "runtime/common/document.h"
#include "runtime/common/suggest.h"

namespace lockstep::convert {
namespace {

using nlohmann::json;

// Paths of what has nothing below it; lists count as one.
void collect_leaves(const json& value, const std::string& path, std::vector<std::string>& leaves) {
  if (!value.is_object() || value.empty()) {
    leaves.push_back(path);
    return;
  }
  for (const auto& [key, child] : value.items()) {
    collect_leaves(child, common::child_path(path, key), leaves);
  }
}

int64_t num_notes_of(const Conversion& conversion, const std::string& leaf) {
  return std::count_if(conversion.notes.begin(), conversion.notes.end(), [&](const Note& note) {
    return common::is_within(leaf, note.key) || common::is_within(note.key, leaf);
  });
}

// True if notes divide a leaf among them: a list by item.
bool is_divided(const Conversion& conversion, const std::string& leaf) {
  return std::any_of(conversion.notes.begin(), conversion.notes.end(), [&](const Note& note) {
    return note.key != leaf && common::is_within(note.key, leaf);
  });
}

}  // namespace

Imported import_valid(const std::string& text, const std::string& from,
                      const std::vector<std::string>& sets) {
  Imported imported = import_text(text, {.file_name = "source.yaml", .from = from, .sets = sets});
  for (const common::Problem& problem : imported.conversion.problems) {
    ADD_FAILURE() << common::to_string(problem, "source") << "\n" << text;
  }
  const api::Manifest manifest = api::parse_manifest(imported.manifest, {.file_name = "job.yaml"});
  for (const common::Problem& problem : manifest.problems) {
    ADD_FAILURE() << common::to_string(problem, "manifest") << "\n" << imported.manifest;
  }
  const common::ParsedText parsed = common::parse_documents(text);
  for (const common::Document& document : parsed.documents) {
    std::vector<std::string> leaves;
    collect_leaves(document.value, "", leaves);
    for (const std::string& leaf : leaves) {
      if (is_divided(imported.conversion, leaf)) continue;
      EXPECT_EQ(num_notes_of(imported.conversion, leaf), 1) << leaf;
    }
  }
  return imported;
}

std::string import_broken(const std::string& text, const std::string& from) {
  const Imported imported =
      import_text(text, {.file_name = "source.yaml", .from = from, .sets = {}});
  EXPECT_EQ(imported.manifest, "");
  EXPECT_TRUE(common::has_errors(imported.conversion.problems)) << text;
  std::string all;
  for (const common::Problem& problem : imported.conversion.problems) {
    all.append(std::to_string(problem.line)).append(" ").append(problem.path).append(": ");
    all.append(problem.message).append("\n");
  }
  return all;
}

std::string fate(const Imported& imported, const std::string& key) {
  for (const Note& note : imported.conversion.notes) {
    if (note.key != key) continue;
    const char* word = note.fate == Fate::kMapped    ? "mapped"
                       : note.fate == Fate::kChanged ? "changed"
                                                     : "refused";
    return note.field.empty() ? word : word + (" " + note.field);
  }
  return "none";
}

json field(const Imported& imported, const std::string& path) {
  const json* found = find_path(imported.conversion.spec, path);
  return found == nullptr ? json() : *found;
}

std::string to_change(const Imported& imported) {
  std::vector<std::string> fields;
  for (const Remark& remark : imported.conversion.remarks) {
    if (remark.fill_in) fields.push_back(remark.field);
  }
  std::sort(fields.begin(), fields.end());
  return common::join(fields, " ");
}

std::string refusals(const Imported& imported) {
  std::vector<std::string> keys;
  for (const Note& note : imported.conversion.notes) {
    if (note.fate == Fate::kRefused) keys.push_back(note.key);
  }
  return common::join(keys, " ");
}

void expect_one_answer_per_key(const Table& table) {
  const std::vector<json> values = {true,
                                    false,
                                    0,
                                    1,
                                    -1,
                                    2.5,
                                    "auto",
                                    "other",
                                    json(),
                                    json::array({"x"}),
                                    json::array({5}),
                                    json::array({json::object({{"name", 5}, {"mountPath", 5}})}),
                                    json::object({{"x", 1}})};
  std::set<std::string> keys;
  for (const Row& row : table) {
    EXPECT_TRUE(keys.insert(row.key).second) << row.key << " has two rows";
    for (const json& value : values) {
      std::string pointer = "/" + row.key;
      std::replace(pointer.begin(), pointer.end(), '.', '/');
      common::Document document;
      document.value[json::json_pointer(pointer)] = value;
      Draft draft;
      Conversion conversion;
      take_all(table, document, draft, conversion.notes, conversion.problems);
      EXPECT_EQ(conversion.notes.size() + conversion.problems.size(), 1) << row.key << value;
    }
  }
}

}  // namespace lockstep::convert

#include "operator/convert/manifest_text.h"

#include <algorithm>
#include <map>
#include <sstream>

#include "operator/api/crd.h"
#include "operator/api/job_fields.h"
#include "operator/api/training_job.h"
#include "operator/convert/report.h"
#include "runtime/common/suggest.h"

namespace lockstep::convert {
namespace {

using common::Field;
using common::FieldType;
using nlohmann::json;

using Comments = std::map<std::string, std::string>;  // by field, below spec

// What stands behind fields. Where a note and a remark meet, what the user has to do wins.
Comments comments_of(const Conversion& conversion) {
  Comments comments;
  for (const Note& note : conversion.notes) {
    if (note.fate != Fate::kChanged || note.field.empty()) continue;
    comments[note.field] = printable(note.key + ": " + note.text);
  }
  for (const Remark& remark : conversion.remarks) {
    comments[remark.field] = printable((remark.fill_in ? "CHANGE: " : "") + remark.text);
  }
  return comments;
}

bool is_short_list(const json& value) {
  if (!value.is_array() || value.dump().size() > 60) return false;
  return std::none_of(value.begin(), value.end(),
                      [](const json& item) { return item.is_structured(); });
}

std::string flow_list(const json& list) {
  std::vector<std::string> items;
  items.reserve(list.size());
  for (const json& item : list) items.push_back(item.dump());
  return std::string("[").append(common::join(items)).append("]");
}

std::string trailing(const Comments& comments, const std::string& path) {
  const auto found = comments.find(path);
  return found == comments.end() ? "" : "  # " + found->second;
}

// `block` with every line moved right.
std::string indented(const std::string& block, size_t indent) {
  std::string out;
  std::istringstream lines(block);
  for (std::string line; std::getline(lines, line);) {
    out.append(indent, ' ').append(line).append("\n");
  }
  return out;
}

struct Writer {
  const Comments& comments;
  std::string out;

  void write_field(const Field& field, const json& value, const std::string& path, size_t indent) {
    out.append(indent, ' ').append(field.name).append(":");
    if (is_short_list(value) || !value.is_structured() || value.empty()) {
      std::string text = value.is_array() ? flow_list(value) : api::to_yaml(value);
      if (text.ends_with('\n')) text.pop_back();
      out.append(" ").append(text).append(trailing(comments, path)).append("\n");
      return;
    }
    out.append(trailing(comments, path)).append("\n");
    if (field.type == FieldType::kObject) {
      write_children(field, value, path, indent + 2);
    } else {
      out.append(indented(api::to_yaml(value), indent + 2));
    }
  }

  void write_children(const Field& field, const json& value, const std::string& path,
                      size_t indent) {
    for (const Field& child : field.children) {
      const auto found = value.find(child.name);
      if (found == value.end()) continue;
      write_field(child, *found, path.empty() ? child.name : path + "." + child.name, indent);
    }
  }
};

// The comment above: where it came from, and what cannot stand behind a field.
std::string heading(const Conversion& conversion, const std::string& source) {
  std::string out = "# From " + printable(source) + ", " + conversion.tool + "; lockstep import.\n";
  const auto list = [&](Fate fate, const char* title) {
    bool first = true;
    for (const Note& note : conversion.notes) {
      if (note.fate != fate || (fate == Fate::kChanged && !note.field.empty())) continue;
      if (first) out.append("# ").append(title).append(":\n");
      first = false;
      out.append("#   ").append(printable(describe(note))).append("\n");
    }
  };
  list(Fate::kRefused, "Refused, so this job does not do it");
  list(Fate::kChanged, "Otherwise here");
  return out;
}

}  // namespace

std::string manifest_text(const Conversion& conversion, const std::string& source) {
  const Comments comments = comments_of(conversion);
  Writer writer{.comments = comments, .out = heading(conversion, source)};
  writer.out.append("apiVersion: ").append(api::kApiVersion).append("\n");
  writer.out.append("kind: ").append(api::kKind).append("\n");
  writer.out.append("metadata:\n").append(indented(api::to_yaml(conversion.metadata), 2));
  writer.out.append("spec:\n");
  writer.write_children(api::spec_fields(), conversion.spec, "", 2);
  return writer.out;
}

}  // namespace lockstep::convert

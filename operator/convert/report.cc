#include "operator/convert/report.h"

#include <utility>

#include "operator/api/training_job.h"

namespace lockstep::convert {
namespace {

using nlohmann::json;

constexpr std::pair<Fate, const char*> kLists[] = {
    {Fate::kMapped, "mapped"}, {Fate::kChanged, "changed"}, {Fate::kRefused, "refused"}};

std::string titled(const std::string& title, const std::vector<std::string>& lines) {
  if (lines.empty()) return "";
  std::string out = title + " (" + std::to_string(lines.size()) + ")\n";
  for (const std::string& line : lines) out.append("  ").append(line).append("\n");
  return out;
}

json remarks_json(const Conversion& conversion, bool fill_in) {
  json list = json::array();
  for (const Remark& remark : conversion.remarks) {
    if (remark.fill_in != fill_in) continue;
    list.push_back({{"field", "spec." + remark.field}, {"text", remark.text}});
  }
  return list;
}

std::vector<std::string> remark_lines(const Conversion& conversion, bool fill_in) {
  std::vector<std::string> lines;
  for (const Remark& remark : conversion.remarks) {
    if (remark.fill_in == fill_in) {
      lines.push_back(printable("spec." + remark.field + ": " + remark.text));
    }
  }
  return lines;
}

}  // namespace

std::string printable(const std::string& text) {
  std::string out;
  out.reserve(text.size());
  for (const char c : text) {
    const bool is_space = c == '\n' || c == '\r' || c == '\t';
    out += is_space ? ' ' : (c >= ' ' && c <= '~' ? c : '?');
  }
  return out;
}

std::string describe(const Note& note) {
  std::string out = note.key;
  if (note.line > 0) out.append(" (line ").append(std::to_string(note.line)).append(")");
  if (!note.field.empty()) out.append(" -> spec.").append(note.field);
  if (!note.text.empty()) out.append(": ").append(note.text);
  return out;
}

std::string render_report(const Conversion& conversion, const std::string& source) {
  std::string out = source + ": " + conversion.tool + "\n";
  for (const auto& [fate, title] : kLists) {
    std::vector<std::string> lines;
    for (const Note& note : conversion.notes) {
      if (note.fate == fate) lines.push_back(printable(describe(note)));
    }
    out += titled(title, lines);
  }
  out += titled("assumed, for the source leaves it open", remark_lines(conversion, false));
  out += titled("CHANGE, for only you know: with --set, or in the manifest",
                remark_lines(conversion, true));
  return out;
}

json manifest_json(const Conversion& conversion) {
  return {{"apiVersion", api::kApiVersion},
          {"kind", api::kKind},
          {"metadata", conversion.metadata},
          {"spec", conversion.spec}};
}

json to_json(const Conversion& conversion, const std::string& source) {
  json out = {{"source", source}, {"tool", conversion.tool}};
  for (const auto& [fate, title] : kLists) {
    json list = json::array();
    for (const Note& note : conversion.notes) {
      if (note.fate != fate) continue;
      list.push_back({{"key", note.key},
                      {"line", note.line},
                      {"field", note.field.empty() ? "" : "spec." + note.field},
                      {"text", note.text}});
    }
    out[title] = std::move(list);
  }
  out["assumed"] = remarks_json(conversion, false);
  out["change"] = remarks_json(conversion, true);
  out["manifest"] = manifest_json(conversion);
  return out;
}

}  // namespace lockstep::convert

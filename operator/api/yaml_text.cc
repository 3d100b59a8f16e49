// JSON values as block YAML.
#include <algorithm>
#include <cctype>

#include "operator/api/crd.h"
#include "runtime/common/document.h"

namespace lockstep::api {
namespace {

using nlohmann::json;

// True for words that YAML 1.1 and 1.2 both read as themselves, unquoted.
bool is_plain_word(const std::string& text) {
  static const std::vector<std::string> typed = {"y",   "n",    "yes",   "no",  "on",
                                                 "off", "true", "false", "null"};
  if (text.empty() || std::isalpha(static_cast<unsigned char>(text.front())) == 0) return false;
  const bool is_word = std::all_of(text.begin(), text.end(), [](unsigned char c) {
    return std::isalnum(c) != 0 || c == '_' || c == '-' || c == '.' || c == '/';
  });
  std::string lower = text;
  std::transform(lower.begin(), lower.end(), lower.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return is_word && std::find(typed.begin(), typed.end(), lower) == typed.end();
}

std::string scalar(const json& value) {
  if (value.is_string() && is_plain_word(value.get<std::string>())) return value.get<std::string>();
  return value.dump();  // a JSON string is a double-quoted YAML scalar; {} and [] are themselves
}

bool is_block(const json& value) {
  return value.is_structured() && !value.empty();
}

void write(const json& value, size_t indent, std::string& out);

void write_map(const json& map, size_t indent, bool first_line_is_indented, std::string& out) {
  bool indented = first_line_is_indented;
  for (const auto& [key, value] : map.items()) {
    if (!indented) out.append(indent, ' ');
    indented = false;
    out.append(scalar(key)).append(":");
    if (is_block(value)) {
      out.append("\n");
      write(value, value.is_array() ? indent : indent + 2, out);
    } else {
      out.append(" ").append(scalar(value)).append("\n");
    }
  }
}

void write_list(const json& list, size_t indent, std::string& out) {
  for (const json& item : list) {
    out.append(indent, ' ').append("-");
    if (item.is_object() && !item.empty()) {
      out.append(" ");
      write_map(item, indent + 2, true, out);
    } else if (is_block(item)) {
      out.append("\n");
      write(item, indent + 2, out);
    } else {
      out.append(" ").append(scalar(item)).append("\n");
    }
  }
}

void write(const json& value, size_t indent, std::string& out) {
  if (value.is_object()) return write_map(value, indent, false, out);
  write_list(value, indent, out);
}

}  // namespace

std::string to_yaml(const json& value) {
  if (!is_block(value)) return scalar(value) + "\n";
  std::string out;
  write(value, 0, out);
  return out;
}

}  // namespace lockstep::api

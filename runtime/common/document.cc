#include "runtime/common/document.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <optional>
#include <set>
#include <sstream>

#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/yaml.h>

namespace lockstep::common {
namespace {

using nlohmann::json;

// Bounds on what aliases may expand to; far above any manifest.
constexpr int kMaxDepth = 64;
constexpr int kMaxNodes = 200000;

struct Expansion {
  std::string_view text;
  Document* document;
  Problems* problems;
  int nodes = 0;
};

// Note [yaml-cpp 0.7 at a stray token]
// At a token that can begin no document (a lone ','), the parser delivers empty documents for ever
// without reading on, and LoadAll() fills the memory with them. So a first pass only looks whether
// every document begins after the last one.
class ForwardOnly : public YAML::EventHandler {
 public:
  void OnDocumentStart(const YAML::Mark& mark) override {
    if (mark.pos <= last_) throw YAML::ParserException(mark, "unexpected character");
    last_ = mark.pos;
  }
  void OnDocumentEnd() override {}
  void OnNull(const YAML::Mark&, YAML::anchor_t) override {}
  void OnAlias(const YAML::Mark&, YAML::anchor_t) override {}
  void OnScalar(const YAML::Mark&, const std::string&, YAML::anchor_t,
                const std::string&) override {}
  void OnSequenceStart(const YAML::Mark&, const std::string&, YAML::anchor_t,
                       YAML::EmitterStyle::value) override {}
  void OnSequenceEnd() override {}
  void OnMapStart(const YAML::Mark&, const std::string&, YAML::anchor_t,
                  YAML::EmitterStyle::value) override {}
  void OnMapEnd() override {}

 private:
  int last_ = -1;
};

// Throws YAML::Exception if loading `text` would not end (see the note).
void require_progress(const std::string& text) {
  std::istringstream stream(text);
  YAML::Parser parser(stream);
  ForwardOnly guard;
  while (parser.HandleNextDocument(guard)) {
  }
}

int line_of_mark(const YAML::Mark& mark) {
  return mark.is_null() ? 0 : mark.line + 1;
}

std::string position(const YAML::Mark& mark) {
  return "line " + std::to_string(mark.line + 1) + ", column " + std::to_string(mark.column + 1);
}

bool all_of(std::string_view text, std::string_view allowed) {
  return !text.empty() && text.find_first_not_of(allowed) == std::string_view::npos;
}

// Integers of the core schema that fit int64; others become floating point, as in JSON.
std::optional<json> integer_of(const std::string& text) {
  std::string digits = text;
  int base = 10;
  if (text.starts_with("0x") && all_of(text.substr(2), "0123456789abcdefABCDEF")) {
    digits = text.substr(2);
    base = 16;
  } else if (text.starts_with("0o") && all_of(text.substr(2), "01234567")) {
    digits = text.substr(2);
    base = 8;
  } else {
    if (digits.starts_with('+')) digits.erase(0, 1);
    const std::string_view unsigned_digits =
        std::string_view(digits).substr(text.starts_with('-') ? 1 : 0);
    if (!all_of(unsigned_digits, "0123456789")) return std::nullopt;
  }
  int64_t value = 0;
  const auto [end, error] =
      std::from_chars(digits.data(), digits.data() + digits.size(), value, base);
  if (error != std::errc() || end != digits.data() + digits.size()) return std::nullopt;
  return value;
}

// Floats of the core schema: [-+]? ( .digits | digits [.digits] ) ( [eE] [-+]? digits )?
bool is_float(std::string_view text) {
  size_t at = 0;
  const auto skip_digits = [&] {
    const size_t begin = at;
    while (at < text.size() && std::isdigit(static_cast<unsigned char>(text[at])) != 0) ++at;
    return at - begin;
  };
  const auto skip_sign = [&] {
    if (at < text.size() && (text[at] == '+' || text[at] == '-')) ++at;
  };
  skip_sign();
  size_t digits = skip_digits();
  if (at < text.size() && text[at] == '.') {
    ++at;
    digits += skip_digits();
  }
  if (digits == 0) return false;
  if (at < text.size() && (text[at] == 'e' || text[at] == 'E')) {
    ++at;
    skip_sign();
    if (skip_digits() == 0) return false;
  }
  return at == text.size();
}

json plain_scalar(const std::string& text) {
  static const std::set<std::string> nulls = {"", "~", "null", "Null", "NULL"};
  static const std::set<std::string> trues = {"true", "True", "TRUE"};
  static const std::set<std::string> falses = {"false", "False", "FALSE"};
  if (nulls.contains(text)) return nullptr;
  if (trues.contains(text)) return true;
  if (falses.contains(text)) return false;
  if (const std::optional<json> integer = integer_of(text)) return *integer;
  if (is_float(text)) {
    // JSON has no infinity: what overflows stays a string, which no number field accepts.
    const double value = std::strtod(text.c_str(), nullptr);
    if (std::isfinite(value)) return value;
  }
  return text;
}

// yaml-cpp 0.7 takes the end of the text for a closing quote; a cut-off file must not pass.
void require_closed_quote(const YAML::Node& node, std::string_view text) {
  const auto begin = static_cast<size_t>(std::max(0, node.Mark().pos));
  if (begin >= text.size() || (text[begin] != '"' && text[begin] != '\'')) return;
  const char quote = text[begin];
  for (size_t at = begin + 1; at < text.size(); ++at) {
    const bool doubled = quote == '\'' && text.substr(at, 2) == "''";
    if (doubled || (quote == '"' && text[at] == '\\')) {
      ++at;
    } else if (text[at] == quote) {
      return;
    }
  }
  throw YAML::ParserException(node.Mark(), "the quote is never closed");
}

json scalar(const YAML::Node& node, std::string_view text) {
  if (node.Tag() == "!") require_closed_quote(node, text);
  const bool is_string = node.Tag() == "!" || node.Tag() == "tag:yaml.org,2002:str";
  return is_string ? json(node.Scalar()) : plain_scalar(node.Scalar());
}

json convert(const YAML::Node& node, const std::string& path, int depth, Expansion& out);

// Adds the keys of a `<<` value that the map does not have itself.
void merge_into(json& object, const YAML::Node& value, const std::string& path, int depth,
                Expansion& out) {
  if (value.IsSequence() && depth < kMaxDepth) {
    for (const YAML::Node& item : value) merge_into(object, item, path, depth + 1, out);
    return;
  }
  const json merged = convert(value, path, depth + 1, out);
  if (!merged.is_object()) {
    out.problems->push_back({.path = path,
                             .line = line_of_mark(value.Mark()),
                             .message = "the value of << must be a map or a list of maps"});
    return;
  }
  for (const auto& [key, item] : merged.items()) {
    if (!object.contains(key)) object[key] = item;
  }
}

json convert_map(const YAML::Node& node, const std::string& path, int depth, Expansion& out) {
  json object = json::object();
  std::set<std::string> seen;
  std::vector<YAML::Node> merges;
  for (const auto& entry : node) {
    const int line = line_of_mark(entry.first.Mark());
    if (!entry.first.IsScalar()) {
      out.problems->push_back(
          {.path = path, .line = line, .message = "a key must be a word, found a map or a list"});
      continue;
    }
    if (entry.first.Tag() == "!") require_closed_quote(entry.first, out.text);
    const std::string key = entry.first.Scalar();
    if (key == "<<" && entry.first.Tag() != "!") {
      merges.push_back(entry.second);
      continue;
    }
    const std::string child = child_path(path, key);
    if (!seen.insert(key).second) {
      out.problems->push_back({.path = child,
                               .line = line,
                               .message = "the key appears twice, first in line " +
                                          std::to_string(out.document->line_of(child)),
                               .hint = "remove one of them"});
      continue;
    }
    out.document->lines.insert_or_assign(child, line);
    object[key] = convert(entry.second, child, depth + 1, out);
  }
  for (const YAML::Node& value : merges) merge_into(object, value, path, depth, out);
  return object;
}

json convert(const YAML::Node& node, const std::string& path, int depth, Expansion& out) {
  if (depth > kMaxDepth || ++out.nodes > kMaxNodes) {
    throw YAML::ParserException(node.Mark(), "nested too deeply, or aliases expand to too much");
  }
  switch (node.Type()) {
    case YAML::NodeType::Scalar:
      return scalar(node, out.text);
    case YAML::NodeType::Map:
      return convert_map(node, path, depth, out);
    case YAML::NodeType::Sequence: {
      json list = json::array();
      for (const YAML::Node& item : node) {
        const std::string child = item_path(path, list.size());
        out.document->lines.insert_or_assign(child, line_of_mark(item.Mark()));
        list.push_back(convert(item, child, depth + 1, out));
      }
      return list;
    }
    case YAML::NodeType::Undefined:
    case YAML::NodeType::Null:
      break;
  }
  return nullptr;
}

}  // namespace

int Document::line_of(const std::string& path) const {
  for (std::string at = path; !at.empty();) {
    if (const auto found = lines.find(at); found != lines.end()) return found->second;
    const size_t cut = at.find_last_of(".[");
    at.resize(cut == std::string::npos ? 0 : cut);
  }
  return 0;
}

ParsedText parse_documents(std::string_view text) {
  ParsedText result;
  constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";
  if (text.starts_with(kByteOrderMark)) text.remove_prefix(kByteOrderMark.size());
  try {
    const std::string copy(text);
    require_progress(copy);
    for (const YAML::Node& root : YAML::LoadAll(copy)) {
      Document document;
      Expansion expansion{.text = text, .document = &document, .problems = &result.problems};
      document.value = convert(root, "", 0, expansion);
      result.documents.push_back(std::move(document));
    }
  } catch (const YAML::Exception& error) {
    result.documents.clear();
    result.problems = {
        {.line = line_of_mark(error.mark),
         .message = error.mark.is_null() ? error.msg : position(error.mark) + ": " + error.msg,
         .hint = "not valid YAML"}};
  } catch (const std::exception& error) {
    result.documents.clear();
    result.problems = {{.message = error.what(), .hint = "not valid YAML"}};
  }
  return result;
}

std::string child_path(const std::string& parent, const std::string& key) {
  const bool is_identifier =
      !key.empty() && std::all_of(key.begin(), key.end(), [](unsigned char c) {
        return std::isalnum(c) != 0 || c == '_' || c == '-' || c == '$';
      });
  if (!is_identifier) return parent + "[" + key + "]";
  return parent.empty() ? key : parent + "." + key;
}

std::string item_path(const std::string& parent, size_t index) {
  return parent + "[" + std::to_string(index) + "]";
}

bool is_within(const std::string& path, const std::string& ancestor) {
  if (!path.starts_with(ancestor)) return false;
  return ancestor.empty() || path.size() == ancestor.size() || path[ancestor.size()] == '.' ||
         path[ancestor.size()] == '[';
}

}  // namespace lockstep::common

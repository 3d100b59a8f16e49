#include "runtime/data/json_documents.h"

#include <nlohmann/json.hpp>

#include "runtime/data/token_source.h"

namespace lockstep::runtime {
namespace {

using common::Error;
using common::ErrorCode;
using common::Result;
using nlohmann::json;

constexpr int64_t kIgnoredLabel = -100;  // as in Hugging Face's data
constexpr char kInputIds[] = "input_ids";
constexpr char kLabels[] = "labels";

Error wrong(const LinePlace& place, const std::string& what, const std::string& hint = "") {
  return error_at(place, {ErrorCode::kInvalidArgument, what, hint});
}

template <typename Json>
Result<Json> parse_object(std::string_view line, const LinePlace& place) {
  Json object;
  try {
    object = Json::parse(line);
  } catch (const json::exception& error) {
    // "[json.exception.parse_error.101] parse error at line 1, column 7: ..." without its head
    const std::string text = error.what();
    const std::size_t at = text.find("column");
    return wrong(place, "is not JSON: " + (at == std::string::npos ? text : text.substr(at)),
                 "every row must be one JSON object");
  }
  if (!object.is_object()) {
    return wrong(place, std::string("holds a JSON ") + object.type_name() + ", not an object",
                 "every row must be one JSON object");
  }
  return object;
}

std::string names_of(const json& object) {
  constexpr std::size_t kMostListed = 8;
  std::string names;
  std::size_t listed = 0;
  for (const auto& [name, value] : object.items()) {
    if (listed++ == kMostListed) return names + ", ...";
    names += (names.empty() ? "" : ", ") + name;
  }
  return names.empty() ? "none" : names;
}

// The ids in the list `name`.
//   ignored: whether -100 stands for kNoLabel.
Result<std::vector<int32_t>> ids_of(const json& object, const char* name, bool ignored,
                                    int64_t num_token_ids, const LinePlace& place) {
  const json& list = object.at(name);
  if (!list.is_array()) return wrong(place, std::string(name) + " is not a list of integers");
  std::vector<int32_t> ids;
  ids.reserve(list.size());
  for (const json& item : list) {
    const bool is_integer = item.is_number_integer();
    const int64_t id = is_integer ? item.get<int64_t>() : -1;
    if (ignored && id == kIgnoredLabel) {
      ids.push_back(kNoLabel);
    } else if (is_integer && id >= 0 && id < num_token_ids) {
      ids.push_back(static_cast<int32_t>(id));
    } else {
      return wrong(place,
                   std::string(name) + "[" + std::to_string(ids.size()) + "] is " + item.dump() +
                       ", not an id below " + std::to_string(num_token_ids),
                   ignored ? "-100 marks a place without loss" : "");
    }
  }
  return ids;
}

}  // namespace

Error error_at(const LinePlace& place, const Error& error) {
  std::string where(place.file);
  if (place.line > 0) where.append(":").append(std::to_string(place.line));
  return {error.code, where.append(": ").append(error.message), error.hint};
}

Result<nlohmann::ordered_json> parse_object_line(std::string_view line, const LinePlace& place) {
  return parse_object<nlohmann::ordered_json>(line, place);
}

Result<std::string> parse_text_line(std::string_view line, const std::string& column,
                                    const LinePlace& place) {
  ASSIGN_OR_RETURN(json object, parse_object<json>(line, place));
  const auto found = object.find(column);
  if (found == object.end()) {
    return wrong(place, "has no field \"" + column + "\"; its fields: " + names_of(object),
                 "name the field with the text in train.data.columns.text");
  }
  if (!found->is_string()) {
    return wrong(place, "\"" + column + "\" is a JSON " + found->type_name() + ", not a string",
                 "name the field with the text in train.data.columns.text");
  }
  return std::move(found->get_ref<std::string&>());
}

Result<TokenRow> parse_token_line(std::string_view line, int64_t num_token_ids,
                                  const LinePlace& place) {
  ASSIGN_OR_RETURN(const json object, parse_object<json>(line, place));
  if (!object.contains(kInputIds)) {
    return wrong(place, "has no field \"input_ids\"; its fields: " + names_of(object));
  }
  TokenRow row;
  ASSIGN_OR_RETURN(row.input_ids, ids_of(object, kInputIds, false, num_token_ids, place));
  if (!object.contains(kLabels)) return row;
  ASSIGN_OR_RETURN(row.labels, ids_of(object, kLabels, true, num_token_ids, place));
  if (row.labels.size() != row.input_ids.size()) {
    return wrong(place,
                 "has " + std::to_string(row.input_ids.size()) + " input_ids and " +
                     std::to_string(row.labels.size()) + " labels",
                 "labels stand at the places of their tokens: they are shifted in training");
  }
  return row;
}

bool is_token_line(std::string_view line) {
  const json object = json::parse(line, nullptr, false);
  return object.is_object() && object.contains(kInputIds);
}

}  // namespace lockstep::runtime

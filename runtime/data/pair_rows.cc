#include "runtime/data/pair_rows.h"

#include <algorithm>
#include <cstddef>
#include <string>
#include <string_view>
#include <utility>

namespace lockstep::runtime {
namespace {

using common::Error;
using common::ErrorCode;
using common::Result;
using nlohmann::ordered_json;

Error bad_pair(const std::string& what, const std::string& hint) {
  return {ErrorCode::kInvalidArgument, what, hint};
}

std::string in_quotes(const std::string& field) {
  return std::string("\"").append(field).append("\"");
}

// A text, or a list of messages as chat templates take them.
Result<ordered_json> part_in(const ordered_json& row, const std::string& field) {
  const Result<ordered_json> value = value_in(row, field);
  if (!value) return bad_pair(value.error().message, kNamePairColumns);
  if (value->is_string()) return *value;
  if (value->is_array()) return messages_in(row, field);
  return bad_pair(in_quotes(field) + " is a JSON " + value->type_name() +
                      ", neither a text nor a list of messages",
                  "leave the row out, or name other fields in train.data.columns");
}

// Bytes of the code points that both begin with, where something is left of either.
std::size_t common_bytes(std::string_view a, std::string_view b) {
  const auto parted = std::mismatch(a.begin(), a.end(), b.begin(), b.end());
  auto count = static_cast<std::size_t>(parted.first - a.begin());
  const bool differ = count < std::min(a.size(), b.size());
  if (!differ && count > 0) --count;  // one begins with the other
  const auto is_inside = [a](std::size_t at) {
    return at > 0 && (static_cast<unsigned char>(a[at]) & 0xC0U) == 0x80U;
  };
  while (count < a.size() && is_inside(count)) --count;
  if (differ && count > 0 && a[count - 1] == ' ') --count;
  return count;
}

AnswerPair split_texts(const std::string& chosen, const std::string& rejected) {
  const std::size_t count = common_bytes(chosen, rejected);
  return {.prompt = chosen.substr(0, count),
          .chosen = chosen.substr(count),
          .rejected = rejected.substr(count)};
}

Result<AnswerPair> split_messages(const ordered_json& chosen, const ordered_json& rejected,
                                  const ConversationLayout& layout) {
  const std::size_t most = std::min(chosen.size(), rejected.size()) - 1;
  std::size_t count = 0;
  while (count < most && chosen[count] == rejected[count]) ++count;
  if (count == 0) {
    return bad_pair(in_quotes(layout.answered) + " and " + in_quotes(layout.rejected) +
                        " have no message in common that both answer",
                    "begin both with the same messages, or give the row a \"prompt\"");
  }
  AnswerPair pair{.prompt = ordered_json::array(),
                  .chosen = ordered_json::array(),
                  .rejected = ordered_json::array()};
  for (std::size_t i = 0; i < chosen.size(); ++i) {
    (i < count ? pair.prompt : pair.chosen).push_back(chosen[i]);
  }
  for (std::size_t i = count; i < rejected.size(); ++i) pair.rejected.push_back(rejected[i]);
  return pair;
}

}  // namespace

Result<AnswerPair> pair_in(const ordered_json& row, const ConversationLayout& layout) {
  AnswerPair pair;
  ASSIGN_OR_RETURN(pair.chosen, part_in(row, layout.answered));
  ASSIGN_OR_RETURN(pair.rejected, part_in(row, layout.rejected));
  const bool is_text = pair.chosen.is_string();
  if (pair.rejected.is_string() != is_text) {
    return bad_pair("of " + in_quotes(layout.answered) + " and " + in_quotes(layout.rejected) +
                        " one is a text, the other a list of messages",
                    "give both answers alike");
  }
  if (!layout.asked.empty()) {
    ASSIGN_OR_RETURN(pair.prompt, part_in(row, layout.asked));
    if (pair.prompt.is_string() == is_text) return pair;
    if (is_text) {
      return bad_pair(in_quotes(layout.asked) + " is a list of messages, but the answers are texts",
                      "give the answers as lists of messages too");
    }
  }
  if (!is_text) return split_messages(pair.chosen, pair.rejected, layout);
  return split_texts(pair.chosen.get<std::string>(), pair.rejected.get<std::string>());
}

}  // namespace lockstep::runtime

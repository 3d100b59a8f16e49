#include "runtime/data/conversation_layout.h"

#include <optional>
#include <utility>

#include <nlohmann/json.hpp>

#include "runtime/data/document_reader.h"
#include "runtime/data/json_documents.h"

namespace lockstep::runtime {
namespace {

using common::ConversationColumns;
using common::Error;
using common::ErrorCode;
using common::Result;
using nlohmann::ordered_json;
using Kind = ConversationLayout::Kind;

constexpr const char* kNameColumns =
    "name them in train.data.columns: messages, or prompt and completion, or instruction, input "
    "and response";

ConversationLayout with_messages(std::string field) {
  ConversationLayout layout;
  layout.messages = std::move(field);
  return layout;
}

ConversationLayout with_answer(Kind kind, std::string asked, std::string input,
                               std::string answered) {
  ConversationLayout layout;
  layout.kind = kind;
  layout.asked = std::move(asked);
  layout.input = std::move(input);
  layout.answered = std::move(answered);
  return layout;
}

// What data sets in use call their fields; the first that a row has counts.
std::vector<ConversationLayout> known_layouts() {
  return {with_messages("messages"),
          with_messages("conversations"),
          with_answer(Kind::kCompletion, "prompt", "", "completion"),
          with_answer(Kind::kInstruction, "instruction", "input", "output"),
          with_answer(Kind::kInstruction, "instruction", "input", "response"),
          with_answer(Kind::kInstruction, "question", "", "answer")};
}

Error bad_row(const std::string& what, const std::string& hint = "") {
  return {ErrorCode::kInvalidArgument, what, hint};
}

std::string quoted(const std::string& field) {
  return std::string("\"").append(field).append("\"");
}

std::string or_else(const std::string& named, const char* usual) {
  return named.empty() ? usual : named;
}

// The layout that the columns name; nothing if they name none.
std::optional<ConversationLayout> named_layout(const ConversationColumns& columns) {
  if (!columns.messages.empty()) return with_messages(columns.messages);
  if (!columns.prompt.empty() || !columns.completion.empty()) {
    return with_answer(Kind::kCompletion, or_else(columns.prompt, "prompt"), "",
                       or_else(columns.completion, "completion"));
  }
  if (columns.instruction.empty() && columns.input.empty() && columns.response.empty()) {
    return std::nullopt;
  }
  return with_answer(Kind::kInstruction, or_else(columns.instruction, "instruction"),
                     or_else(columns.input, "input"), or_else(columns.response, "response"));
}

// The first field that `layout` needs and `row` has not; empty if it has all.
std::string missing_field(const ordered_json& row, const ConversationLayout& layout) {
  for (const std::string& field :
       {layout.messages, layout.asked, layout.answered, layout.rejected}) {
    if (!field.empty() && !row.contains(field)) return field;
  }
  return "";
}

std::string fields_of(const ordered_json& row) {
  std::string names;
  for (const auto& [name, value] : row.items()) names += (names.empty() ? "" : ", ") + name;
  return names.empty() ? "none" : names;
}

// ShareGPT's word for who speaks as a role; empty for one that nobody uses.
std::string role_named(const std::string& speaker) {
  if (speaker == "human") return "user";
  if (speaker == "gpt" || speaker == "chatgpt" || speaker == "model") return "assistant";
  for (const char* const role : {"user", "assistant", "system", "tool"}) {
    if (speaker == role) return speaker;
  }
  return "";
}

// `message` with a role and a content.
//   place: of it in the row, for errors.
Result<ordered_json> as_message(ordered_json message, const std::string& place) {
  constexpr const char* kShape =
      "a message is {\"role\": .., \"content\": ..} or {\"from\": .., \"value\": ..}";
  if (!message.is_object()) {
    return bad_row(place + " is a JSON " + message.type_name() + ", not a message", kShape);
  }
  const bool is_shared = !message.contains("role") && message.contains("from");
  const std::string role = is_shared ? "from" : "role";
  const std::string content = is_shared ? "value" : "content";
  if (!message.contains(role)) return bad_row(place + " has no \"role\"", kShape);
  if (!message.at(role).is_string()) {
    return bad_row(place + ": " + quoted(role) + " is " + message.at(role).dump() + ", not a text",
                   kShape);
  }
  if (!message.contains(content)) {
    if (!is_shared && message.contains("tool_calls")) return message;
    return bad_row(place + " has no " + quoted(content), kShape);
  }
  const ordered_json& said = message.at(content);
  const bool calls_tools = said.is_null() && message.contains("tool_calls");
  if (!said.is_string() && !calls_tools && (is_shared || !said.is_array())) {
    return bad_row(
        place + ": " + quoted(content) + " is a JSON " + said.type_name() + ", not a text", kShape);
  }
  if (!is_shared) return message;
  const auto speaker = message.at(role).get<std::string>();
  const std::string named = role_named(speaker);
  if (named.empty()) {
    return bad_row(place + ": nobody is called " + quoted(speaker),
                   "\"from\" is human, gpt, system or tool");
  }
  return ordered_json{{"role", named}, {"content", said}};
}

Result<std::string> text_in(const ordered_json& row, const std::string& field) {
  ASSIGN_OR_RETURN(const ordered_json value, value_in(row, field));
  if (value.is_string()) return value.get<std::string>();
  return bad_row(quoted(field) + " is a JSON " + value.type_name() + ", not a text", kNameColumns);
}

}  // namespace

std::string to_text(const ConversationLayout& layout) {
  if (layout.kind == Kind::kMessages) return "messages in " + quoted(layout.messages);
  if (layout.kind == Kind::kPair) {
    const std::string prompt = layout.asked.empty() ? "both" : quoted(layout.asked);
    return "chosen in " + quoted(layout.answered) + ", rejected in " + quoted(layout.rejected) +
           ", prompt in " + prompt;
  }
  const bool is_plain = layout.kind == Kind::kCompletion;
  std::string text = is_plain ? "prompt in " : "instruction in ";
  text += quoted(layout.asked);
  if (!layout.input.empty()) text += ", input in " + quoted(layout.input);
  text += is_plain ? ", completion in " : ", response in ";
  return text + quoted(layout.answered);
}

Result<ConversationLayout> find_layout(const ordered_json& row,
                                       const ConversationColumns& columns) {
  if (const std::optional<ConversationLayout> named = named_layout(columns)) {
    const std::string missing = missing_field(row, *named);
    if (missing.empty()) return *named;
    return bad_row("has no field " + quoted(missing) + "; its fields: " + fields_of(row),
                   kNameColumns);
  }
  for (const ConversationLayout& known : known_layouts()) {
    if (missing_field(row, known).empty()) return known;
  }
  return bad_row("has no field that holds a conversation; its fields: " + fields_of(row),
                 kNameColumns);
}

Result<ConversationLayout> find_pair_layout(const ordered_json& row,
                                            const ConversationColumns& columns) {
  const std::string prompt = or_else(columns.prompt, "prompt");
  const bool has_prompt = !columns.prompt.empty() || row.contains(prompt);
  ConversationLayout layout =
      with_answer(Kind::kPair, has_prompt ? prompt : "", "", or_else(columns.chosen, "chosen"));
  layout.rejected = or_else(columns.rejected, "rejected");
  const std::string missing = missing_field(row, layout);
  if (missing.empty()) return layout;
  return bad_row("has no field " + quoted(missing) + "; its fields: " + fields_of(row),
                 kNamePairColumns);
}

Result<ConversationLayout> find_layout_of(const std::vector<std::string>& files,
                                          const ConversationColumns& columns, FindLayout* find) {
  for (const std::string& path : files) {
    ASSIGN_OR_RETURN(const FirstRow first, first_row(path));
    if (first.text.empty()) continue;
    const LinePlace place{.file = path, .line = first.line};
    ASSIGN_OR_RETURN(const ordered_json row, parse_object_line(first.text, place));
    Result<ConversationLayout> layout = find(row, columns);
    if (!layout) return error_at(place, layout.error());
    return layout;
  }
  return bad_row("empty corpus: there is no row in " + (files.empty() ? "" : files.front()));
}

Result<ordered_json> value_in(const ordered_json& row, const std::string& field) {
  const auto found = row.find(field);
  if (found != row.end()) return *found;
  return bad_row("has no field " + quoted(field) + "; its fields: " + fields_of(row), kNameColumns);
}

Result<ordered_json> messages_in(const ordered_json& row, const std::string& field) {
  ASSIGN_OR_RETURN(const ordered_json list, value_in(row, field));
  if (!list.is_array()) {
    return bad_row(quoted(field) + " is a JSON " + list.type_name() + ", not a list of messages",
                   kNameColumns);
  }
  if (list.empty()) return bad_row(quoted(field) + " has no messages", "leave the row out");
  ordered_json messages = ordered_json::array();
  for (const ordered_json& message : list) {
    const std::string place = quoted(field) + "[" + std::to_string(messages.size()) + "]";
    ASSIGN_OR_RETURN(ordered_json taken, as_message(message, place));
    messages.push_back(std::move(taken));
  }
  return messages;
}

Result<ordered_json> messages_of_instruction(const ordered_json& row,
                                             const ConversationLayout& layout) {
  ordered_json messages = ordered_json::array();
  const auto system = row.find("system");
  if (system != row.end() && system->is_string() && !system->get<std::string>().empty()) {
    messages.push_back({{"role", "system"}, {"content", *system}});
  }
  ASSIGN_OR_RETURN(std::string asked, text_in(row, layout.asked));
  const bool has_input =
      !layout.input.empty() && row.contains(layout.input) && !row.at(layout.input).is_null();
  if (has_input) {
    ASSIGN_OR_RETURN(const std::string input, text_in(row, layout.input));
    if (!input.empty()) asked += "\n\n" + input;
  }
  ASSIGN_OR_RETURN(std::string answered, text_in(row, layout.answered));
  messages.push_back({{"role", "user"}, {"content", std::move(asked)}});
  messages.push_back({{"role", "assistant"}, {"content", std::move(answered)}});
  return messages;
}

}  // namespace lockstep::runtime

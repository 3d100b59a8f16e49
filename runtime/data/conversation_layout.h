// Which fields of a row hold a conversation, and the messages that they hold.
#pragma once

#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "runtime/common/result.h"
#include "runtime/common/train_config.h"

namespace lockstep::runtime {

// What to do about a pair whose fields are not found.
inline constexpr const char* kNamePairColumns =
    "name them in train.data.columns: prompt, chosen and rejected";

struct ConversationLayout {
  enum class Kind {
    kMessages,     // a list of messages
    kCompletion,   // a prompt and what it goes on with: two texts, or two lists of messages
    kInstruction,  // what a user asks, and is answered
    kPair,         // a prompt and two answers: texts, or lists of messages
  };
  Kind kind = Kind::kMessages;
  std::string messages;                // of kMessages
  std::string asked, input, answered;  // of the others; `input` only of kInstruction, may be empty
  // Of kPair, whose `answered` is the chosen answer; its `asked` may be empty: both answers begin
  // with the prompt then.
  std::string rejected;
};

// In words, with the names of the fields.
std::string to_text(const ConversationLayout& layout);

// The layout that `columns` name, the fields that they leave out by their usual names; if they name
// none, that whose fields `row` has: messages (or conversations), prompt and completion,
// instruction and output (or response), question and answer.
// kInvalidArgument if `row` has not the fields, naming those that it has.
common::Result<ConversationLayout> find_layout(const nlohmann::ordered_json& row,
                                               const common::ConversationColumns& columns);

// The layout of pairs: chosen and rejected, and prompt if `row` has it, by the names that `columns`
// give. Errors as find_layout().
common::Result<ConversationLayout> find_pair_layout(const nlohmann::ordered_json& row,
                                                    const common::ConversationColumns& columns);

using FindLayout = common::Result<ConversationLayout>(const nlohmann::ordered_json& row,
                                                      const common::ConversationColumns& columns);

// What `find` finds in the first row of `files` that is not blank. Errors also of reading, naming
// the row.
common::Result<ConversationLayout> find_layout_of(const std::vector<std::string>& files,
                                                  const common::ConversationColumns& columns,
                                                  FindLayout* find = find_layout);

// What `row` has as `field`. kInvalidArgument if it has none, naming those that it has.
common::Result<nlohmann::ordered_json> value_in(const nlohmann::ordered_json& row,
                                                const std::string& field);

// The messages in `field` of `row` as chat templates take them: {"role": .., "content": ..}, with
// all other keys as they are. ShareGPT's {"from": .., "value": ..} become such, its human a user
// and its gpt an assistant. kInvalidArgument naming the field and the message that is none.
common::Result<nlohmann::ordered_json> messages_in(const nlohmann::ordered_json& row,
                                                   const std::string& field);

// The same of kInstruction: a system message, if the row has a text "system", the instruction with
// its input behind a blank line, and the answer. kInvalidArgument naming a field that is no text.
common::Result<nlohmann::ordered_json> messages_of_instruction(const nlohmann::ordered_json& row,
                                                               const ConversationLayout& layout);

}  // namespace lockstep::runtime

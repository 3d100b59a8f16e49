// Rows with two answers: what both go on from, and where they part.
#pragma once

#include <nlohmann/json.hpp>

#include "runtime/common/result.h"
#include "runtime/data/conversation_layout.h"

namespace lockstep::runtime {

// All three are texts, or all three lists of messages.
struct AnswerPair {
  nlohmann::ordered_json prompt, chosen, rejected;
};

// The prompt and the answers of `row`. Where it has no prompt, or a text beside lists of messages,
// the prompt is what both answers begin with: messages, or code points, and of these no space at
// the end. It leaves something of either answer, as TRL's extract_prompt() does.
//   layout: of kPair.
// kInvalidArgument naming the field: of fields that are missing, or neither texts nor messages; of
// answers of two kinds; of conversations that have no message in common.
common::Result<AnswerPair> pair_in(const nlohmann::ordered_json& row,
                                   const ConversationLayout& layout);

}  // namespace lockstep::runtime

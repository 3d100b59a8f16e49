// From a pair of answers back to the row that it was made of.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "runtime/common/result.h"
#include "runtime/data/conversation_tokenizer.h"

namespace lockstep::runtime {

// The place, "pairs.jsonl:17", of pair `pair` (from 0) of those that a token file of `files` has:
// rows that it leaves out do not count. Reads rows as a tokenization does, as far as that one.
//   conversations: of a layout of pairs, that which made the token file.
//   goes_on:       asked after each row; kUnavailable once it says no.
// kNotFound if there are not so many pairs. Errors of files and rows.
common::Result<std::string> find_pair(const std::vector<std::string>& files,
                                      const ConversationTokenizer& conversations, int64_t pair,
                                      const std::function<bool()>& goes_on);

}  // namespace lockstep::runtime

// One row of data, a JSON object: a text, tokens, or any object.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "runtime/common/result.h"

namespace lockstep::runtime {

// Where a row stands, for errors: "data/a.jsonl:12".
struct LinePlace {
  std::string_view file;
  int64_t line = 0;  // from 1
};

// `error` with its place before it; without a line the place is the file.
common::Error error_at(const LinePlace& place, const common::Error& error);

// The string `column` of the object in `line`. kInvalidArgument naming place and column.
common::Result<std::string> parse_text_line(std::string_view line, const std::string& column,
                                            const LinePlace& place);

struct TokenRow {
  std::vector<int32_t> input_ids;
  std::vector<int32_t> labels;  // as long as input_ids, -100 made kNoLabel; empty if there are none
};

// {"input_ids": [..], "labels": [..]?}, the columns of Hugging Face; others are ignored.
//   num_token_ids: ids and labels are below it.
// kInvalidArgument naming place and what is wrong.
common::Result<TokenRow> parse_token_line(std::string_view line, int64_t num_token_ids,
                                          const LinePlace& place);

// The object in `line`, its keys in their order. kInvalidArgument naming the place.
common::Result<nlohmann::ordered_json> parse_object_line(std::string_view line,
                                                         const LinePlace& place);

// True if `line` is an object with input_ids.
bool is_token_line(std::string_view line);

}  // namespace lockstep::runtime

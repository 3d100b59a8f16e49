#include "runtime/data/find_pair.h"

#include <algorithm>

#include "runtime/data/document_reader.h"

namespace lockstep::runtime {

using common::Error;
using common::ErrorCode;
using common::Result;

Result<std::string> find_pair(const std::vector<std::string>& files,
                              const ConversationTokenizer& conversations, int64_t pair,
                              const std::function<bool()>& goes_on) {
  int64_t before = 0;
  for (const std::string& file : files) {
    ASSIGN_OR_RETURN(DocumentReader rows, DocumentReader::open(file, DocumentReader::Unit::kRow));
    while (true) {
      if (!goes_on()) return Error{ErrorCode::kUnavailable, "told to stop", ""};
      ASSIGN_OR_RETURN(const bool has_row, rows.next());
      if (!has_row) break;
      if (is_blank(rows.text())) continue;
      const LinePlace place = rows.place();
      ASSIGN_OR_RETURN(const auto answers, conversations.encode_pair(rows.text(), place));
      const bool is_kept = std::all_of(answers.begin(), answers.end(), [&](const TokenRow& row) {
        return conversations.teaches(row);
      });
      if (!is_kept || before++ < pair) continue;
      return std::string(place.file) + ":" + std::to_string(place.line);
    }
  }
  return Error{ErrorCode::kNotFound, "there are only " + std::to_string(before) + " pairs",
               "the files have changed since they were read"};
}

}  // namespace lockstep::runtime

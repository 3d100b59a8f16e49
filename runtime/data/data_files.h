// What the files are that a user named as data.
#pragma once

#include <string>

#include "runtime/common/result.h"
#include "runtime/common/train_config.h"
#include "runtime/data/path_expansion.h"
#include "runtime/data/tokenize.h"

namespace lockstep::runtime {

struct DataFiles {
  ExpandedPaths paths;
  SourceKind kind = SourceKind::kText;
};

// Expands `pattern` and tells the kind of its files. kAuto goes by their names, which must agree:
// *.jsonl and *.ndjson are JSON lines (tokens, if the first line has input_ids), *.tokens are token
// files, all else is text. kTokens takes token files and JSON lines;
// of kMessages any are conversations.
// Errors: those of expand_paths(); kInvalidArgument naming a file that the format is not for.
common::Result<DataFiles> find_data(const std::string& pattern, common::DataConfig::Format format);

// The same of data that conversations may be in: JSON lines are such if the format is kMessages,
// and under kAuto unless their first line has input_ids, or the text column and no conversation.
common::Result<DataFiles> find_conversations(const std::string& pattern,
                                             const common::DataConfig& config);

// The name of the token file that JSON lines become: equal for equal names, sizes, times of change
// and edges of the files, options and tokenizer.
common::Result<std::string> token_file_name(const TokenizeOptions& options,
                                            const Tokenizer& tokenizer);

}  // namespace lockstep::runtime

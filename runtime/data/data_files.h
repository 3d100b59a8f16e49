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
// if all are named as files of rows (see document_reader.h) they are such (tokens, if the first row
// has input_ids), *.tokens are token files, all else is text, a *.json or *.csv among it too, and a
// *.parquet among it is skipped.
// kTokens takes token files and rows; of kMessages any are conversations.
// Errors: those of expand_paths(); kInvalidArgument naming a file that the format is not for.
common::Result<DataFiles> find_data(const std::string& pattern, common::DataConfig::Format format);

// The same of data that conversations may be in: rows are such if the format is kMessages, and
// under kAuto unless the first one has input_ids, or the text column and no conversation.
common::Result<DataFiles> find_conversations(const std::string& pattern,
                                             const common::DataConfig& config);

// The name of the token file that rows become: equal for equal names, sizes, times of change
// and edges of the files, options and tokenizer.
common::Result<std::string> token_file_name(const TokenizeOptions& options,
                                            const Tokenizer& tokenizer);

}  // namespace lockstep::runtime

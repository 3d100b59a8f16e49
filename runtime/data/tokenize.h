// From texts or rows to a token file.
#pragma once

#include <chrono>
#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "runtime/checkpoint/disk.h"
#include "runtime/common/result.h"
#include "runtime/data/conversation_tokenizer.h"
#include "runtime/data/token_file_format.h"
#include "runtime/data/tokenizer.h"

namespace lockstep::runtime {

enum class SourceKind {
  kText,           // a file is a document
  kRowTexts,       // a row has a text
  kRowTokens,      // a row has input_ids
  kConversations,  // a row has what is said
  kTokenFiles,     // what `lockstep tokenize` writes
};

struct TokenizeOptions {
  std::vector<std::string> files;
  SourceKind kind = SourceKind::kText;                          // not kTokenFiles
  std::string text_column = "text";                             // of kRowTexts
  int64_t num_token_ids = std::numeric_limits<int32_t>::max();  // kRowTokens: ids are below it
  const ConversationTokenizer* conversations = nullptr;         // of kConversations; outlives it
};

struct TokenizeCounts {
  int64_t rows = 0;             // read, blank lines of JSON lines among them
  int64_t empty_documents = 0;  // left out: a text without bytes, a blank line, a row without ids
  int64_t unlearned_rows = 0;   // left out: conversations without a label
};

// Writes a token file in slices of time, so that the caller can do other things in between. Memory
// does not grow with the data: files are mapped, see DocumentReader::text().
class Tokenization {
 public:
  // `disk` and `tokenizer` must outlive the object.
  Tokenization(Disk& disk, std::string path, TokenizeOptions options, const Tokenizer& tokenizer);
  ~Tokenization();

  // Works for `slice` or a little longer: until a document ends. Returns whether all is done and
  // the file stands in its place; then it must not be called again. Errors: kInvalidArgument naming
  // file and line; what files and disk return. The last call, then.
  common::Result<bool> advance(std::chrono::milliseconds slice);

  const TokenFileHeader& header() const;  // once all is done
  const TokenizeCounts& counts() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace lockstep::runtime

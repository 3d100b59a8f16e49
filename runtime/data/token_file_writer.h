// Writes a token file, document by document, in constant memory.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "runtime/checkpoint/disk.h"
#include "runtime/data/token_file_format.h"

namespace lockstep::runtime {

struct TokenFileOptions {
  int64_t token_bytes = 2;
  int64_t separator = -1;
  bool has_labels = false;
  std::string tokenizer;
};

// See Note [The token file]. What is written lies under names that begin with a dot, beside the
// file, until finish(); an object that goes away before removes them.
class TokenFileWriter {
 public:
  // `disk` must outlive the object. Errors: those of the disk.
  static common::Result<TokenFileWriter> create(Disk& disk, const std::string& path,
                                                const TokenFileOptions& options);
  ~TokenFileWriter();
  TokenFileWriter(TokenFileWriter&&) noexcept;

  // Adds tokens to the document at work.
  //   labels: as long as `tokens`, with has_labels; else empty.
  // kInvalidArgument if an id does not fit token_bytes.
  common::Result<void> add_tokens(std::span<const int32_t> tokens, std::span<const int32_t> labels);
  // Ends the document at work; one without tokens is none.
  common::Result<void> end_document();
  // Puts the file in its place, synced. The last call. kInvalidArgument if there is no document.
  common::Result<TokenFileHeader> finish();

 private:
  struct State;
  explicit TokenFileWriter(std::unique_ptr<State> state);

  std::unique_ptr<State> state_;
};

}  // namespace lockstep::runtime

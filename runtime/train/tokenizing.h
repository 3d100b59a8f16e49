// From text or JSON lines to a token file: the `tokenize` verb.
#pragma once

#include <string>

namespace lockstep::runtime {

struct TokenizeVerbOptions {
  std::string input;            // path, folder or glob, as train.data.train
  std::string output;           // the token file
  std::string format = "auto";  // auto | text | jsonl | tokens
  std::string text_column = "text";
  std::string tokenizer;  // a directory with a tokenizer.json, or that file; empty: bytes
  bool overwrite = false;
};

// Writes options.output and returns what it holds, as text for people. Throws RunError with the
// typed code of what is wrong; a file that was there is then as it was.
std::string tokenize(const TokenizeVerbOptions& options);

}  // namespace lockstep::runtime

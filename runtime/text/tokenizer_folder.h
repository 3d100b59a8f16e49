// The files of a tokenizer in a Hugging Face directory.
#pragma once

#include <map>
#include <optional>
#include <string>

#include "runtime/common/result.h"
#include "runtime/text/chat_template.h"
#include "runtime/text/hf_tokenizer.h"

namespace lockstep::runtime {

struct TokenizerFolder {
  std::string folder;
  std::string tokenizer_json;                         // its text
  std::map<std::string, std::string> special_tokens;  // "eos_token" and its kin to tokens
  // chat_template.jinja, or what tokenizer_config.json holds: the one named default, of several.
  std::optional<std::string> chat_template;
  std::string chat_template_name;  // the file that it came from
};

// Reads `path`: a directory with a tokenizer.json, or that file itself.
// Errors: kNotFound without a tokenizer.json, kInvalidArgument for a file beside it that is not
// what it should be, naming file and key.
common::Result<TokenizerFolder> read_tokenizer_folder(const std::string& path);

common::Result<HfTokenizer> open_tokenizer(const TokenizerFolder& files);

// kNotFound if the folder has no template.
common::Result<ChatTemplate> open_chat_template(const TokenizerFolder& files);

}  // namespace lockstep::runtime

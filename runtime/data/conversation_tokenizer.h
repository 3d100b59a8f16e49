// Conversations as rows of tokens, with a loss where the assistant speaks.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "runtime/common/result.h"
#include "runtime/data/conversation_layout.h"
#include "runtime/data/json_documents.h"
#include "runtime/text/chat_template.h"
#include "runtime/text/hf_tokenizer.h"
#include "runtime/text/tokenizer_folder.h"

namespace lockstep::runtime {

struct ConversationOptions {
  std::string tokenizer;  // as read_tokenizer_folder() takes it
  ConversationLayout layout;
  bool learns_all = false;  // every token, in place of what the assistant says
  // Of templates that ask for strftime_now: the same for all ranks and attempts of a run.
  std::chrono::system_clock::time_point now;
  int64_t sample_tokens = 0;  // rows are cut to so many; 0: they are not
};

// Note [What is learned of a conversation]
// Messages become text by the chat template, the text becomes tokens. A token has a label if its
// text stands in {% generation %}. Of a template without such marks it is what a conversation that
// ends with an answer has beyond the same one that asks for it (add_generation_prompt), its end of
// turn included; a row for which the template writes the beginning otherwise once more follows is
// refused, since then no place in the text is the answer's. Instructions are conversations of two
// messages.
// Of a prompt and a completion, two texts or two lists of messages, the tokens of both together
// have a label from where they differ from those of the prompt alone; two texts end with the
// eos_token. TRL counts the prompt's tokens instead, which is the same unless one token reaches
// from the prompt into the completion. Of two answers to a prompt both have labels from where the
// tokens of one of them first differ from those of the prompt alone, as in TRL.
class ConversationTokenizer {
 public:
  // Reads the tokenizer and, where there is one, its template. Errors: of the folder's files;
  // kInvalidArgument if the layout needs a template that is not there.
  static common::Result<ConversationTokenizer> open(const ConversationOptions& options);

  // Names all that decides the rows: other rows, another name. At most 40 bytes.
  const std::string& name() const { return name_; }
  const HfTokenizer& tokenizer() const { return tokenizer_; }
  bool learns_all() const { return options_.learns_all; }
  // What a label goes by, in words.
  std::string rule() const;

  // The row that `line`, a JSON object, becomes; without labels if all is learned.
  // kInvalidArgument naming place and field: of a row without the layout's fields, a message that
  // is none, a template that refuses, or answers that cannot be found in the text.
  common::Result<TokenRow> encode(std::string_view line, const LinePlace& place) const;

  // Of a layout of pairs, the rows of the chosen and of the rejected answer. Errors as encode().
  common::Result<std::array<TokenRow, 2>> encode_pair(std::string_view line,
                                                      const LinePlace& place) const;

  // Whether rows are pairs, for encode_pair().
  bool has_pairs() const { return options_.layout.kind == ConversationLayout::Kind::kPair; }

  // Whether a place within a sample has a label.
  bool teaches(const TokenRow& row) const;

 private:
  ConversationTokenizer(ConversationOptions options, TokenizerFolder files, HfTokenizer tokenizer)
      : options_(std::move(options)), files_(std::move(files)), tokenizer_(std::move(tokenizer)) {}

  void set_name();
  common::Result<TokenRow> encode_row(const nlohmann::ordered_json& row) const;
  common::Result<TokenRow> encode_messages(const nlohmann::ordered_json& messages,
                                           const nlohmann::ordered_json& row) const;
  common::Result<TokenRow> encode_completion(const nlohmann::ordered_json& row) const;
  common::Result<std::array<TokenRow, 2>> encode_answers(const nlohmann::ordered_json& row) const;
  // The tokens of a prompt and what it goes on with, and how many of them the prompt alone begins
  // with.
  struct Continued {
    std::vector<int32_t> ids;
    std::size_t num_prompt = 0;
  };
  common::Result<Continued> encode_continued(const nlohmann::ordered_json& prompt,
                                             const nlohmann::ordered_json& completion,
                                             const nlohmann::ordered_json& row) const;
  // The row of `continued`, with labels behind its first num_prompt tokens.
  TokenRow learned_behind(Continued continued) const;
  common::Result<std::vector<TextSpan>> find_answers(const std::string& whole,
                                                     const nlohmann::ordered_json& messages,
                                                     const nlohmann::ordered_json& row) const;
  common::Result<Rendering> render(const nlohmann::ordered_json& messages,
                                   const nlohmann::ordered_json& row, bool asks_for_answer) const;
  TokenRow labelled(std::vector<int32_t> ids, const std::vector<bool>& learns) const;

  ConversationOptions options_;
  TokenizerFolder files_;
  HfTokenizer tokenizer_;
  std::optional<ChatTemplate> template_;
  std::string name_;
};

}  // namespace lockstep::runtime

#include "runtime/data/conversation_tokenizer.h"

#include <algorithm>
#include <array>
#include <cstdio>

#include <nlohmann/json.hpp>

#include "runtime/data/file_fingerprint.h"
#include "runtime/data/pair_rows.h"
#include "runtime/data/token_source.h"
#include "runtime/text/assistant_mask.h"

namespace lockstep::runtime {
namespace {

using common::Error;
using common::ErrorCode;
using common::Result;
using nlohmann::ordered_json;
using Kind = ConversationLayout::Kind;

constexpr const char* kTimeFunction = "strftime_now";

Error cannot_encode(const std::string& what, const std::string& hint = "") {
  return {ErrorCode::kInvalidArgument, what, hint};
}

Error no_template(const TokenizerFolder& files, Kind kind) {
  const std::string fields = kind == Kind::kPair ? "\"prompt\", \"chosen\" and \"rejected\""
                                                 : "\"prompt\" and \"completion\"";
  return cannot_encode(
      files.folder + " has no chat template",
      "add the model's chat_template.jinja to it; texts in " + fields + " need none");
}

int64_t num_code_points(std::string_view text) {
  return std::count_if(text.begin(), text.end(), [](char byte) {
    return (static_cast<unsigned char>(byte) & 0xC0U) != 0x80U;  // not one that goes on
  });
}

}  // namespace

Result<ConversationTokenizer> ConversationTokenizer::open(const ConversationOptions& options) {
  ASSIGN_OR_RETURN(TokenizerFolder files, read_tokenizer_folder(options.tokenizer));
  ASSIGN_OR_RETURN(HfTokenizer tokenizer, open_tokenizer(files));
  ConversationTokenizer opened(options, std::move(files), std::move(tokenizer));
  if (opened.files_.chat_template) {
    ASSIGN_OR_RETURN(ChatTemplate parsed, open_chat_template(opened.files_));
    opened.template_.emplace(std::move(parsed));
  } else if (options.layout.kind != Kind::kCompletion && options.layout.kind != Kind::kPair) {
    return no_template(opened.files_, options.layout.kind);
  }
  opened.set_name();
  return opened;
}

void ConversationTokenizer::set_name() {
  FileFingerprint fingerprint;
  fingerprint.add(files_.tokenizer_json);
  if (files_.chat_template) {
    fingerprint.add("template:" + *files_.chat_template);
    if (files_.chat_template->find(kTimeFunction) != std::string::npos) {
      const auto seconds =
          std::chrono::duration_cast<std::chrono::seconds>(options_.now.time_since_epoch());
      fingerprint.add("now:" + std::to_string(seconds.count()));
    }
  }
  for (const auto& [token_name, token] : files_.special_tokens) {
    fingerprint.add(token_name + ":" + token);
  }
  fingerprint.add(to_text(options_.layout));
  fingerprint.add(options_.learns_all ? "all" : "response");
  fingerprint.add("sample:" + std::to_string(options_.sample_tokens));
  std::array<char, 24> name{};
  std::snprintf(name.data(), name.size(), "chat:%016llx",
                static_cast<unsigned long long>(fingerprint.hash()));
  name_ = name.data();
}

std::string ConversationTokenizer::rule() const {
  if (options_.learns_all) return "all tokens";
  if (has_pairs()) return "chosen and rejected answers";
  if (options_.layout.kind == Kind::kCompletion) return "the completion";
  return template_->marks_generation() ? "what stands in {% generation %}"
                                       : "what follows the template's generation prompt";
}

Result<TokenRow> ConversationTokenizer::encode(std::string_view line,
                                               const LinePlace& place) const {
  ASSIGN_OR_RETURN(const ordered_json row, parse_object_line(line, place));
  Result<TokenRow> encoded = encode_row(row);
  if (!encoded) return error_at(place, encoded.error());
  return encoded;
}

Result<std::array<TokenRow, 2>> ConversationTokenizer::encode_pair(std::string_view line,
                                                                   const LinePlace& place) const {
  ASSIGN_OR_RETURN(const ordered_json row, parse_object_line(line, place));
  Result<std::array<TokenRow, 2>> encoded = encode_answers(row);
  if (!encoded) return error_at(place, encoded.error());
  return encoded;
}

bool ConversationTokenizer::teaches(const TokenRow& row) const {
  // Token i is what token i - 1 predicts: the first teaches nothing, the one behind a sample does.
  const std::size_t all = row.input_ids.size();
  const std::size_t end = options_.sample_tokens == 0
                              ? all
                              : std::min(all, static_cast<std::size_t>(options_.sample_tokens) + 1);
  if (row.labels.empty()) return end > 1;
  for (std::size_t i = 1; i < end; ++i) {
    if (row.labels[i] != kNoLabel) return true;
  }
  return false;
}

Result<TokenRow> ConversationTokenizer::encode_row(const ordered_json& row) const {
  if (options_.layout.kind == Kind::kCompletion) return encode_completion(row);
  ASSIGN_OR_RETURN(const ordered_json messages,
                   options_.layout.kind == Kind::kMessages
                       ? messages_in(row, options_.layout.messages)
                       : messages_of_instruction(row, options_.layout));
  return encode_messages(messages, row);
}

Result<TokenRow> ConversationTokenizer::encode_messages(const ordered_json& messages,
                                                        const ordered_json& row) const {
  ASSIGN_OR_RETURN(Rendering rendering, render(messages, row, /*asks_for_answer=*/false));
  if (!options_.learns_all && !template_->marks_generation()) {
    ASSIGN_OR_RETURN(rendering.generated, find_answers(rendering.text, messages, row));
  }
  ASSIGN_OR_RETURN(Encoding encoding,
                   tokenizer_.encode(rendering.text, /*add_special_tokens=*/false));
  const std::vector<bool> learns = assistant_mask(encoding, rendering.generated);
  return labelled(std::move(encoding.ids), learns);
}

// What the assistant says in `whole`, the text of `messages`.
Result<std::vector<TextSpan>> ConversationTokenizer::find_answers(const std::string& whole,
                                                                  const ordered_json& messages,
                                                                  const ordered_json& row) const {
  std::vector<TextSpan> answers;
  ordered_json so_far = ordered_json::array();
  for (std::size_t i = 0; i < messages.size(); ++i) {
    if (messages[i].at("role") != "assistant") {
      so_far.push_back(messages[i]);
      continue;
    }
    ASSIGN_OR_RETURN(const Rendering asked, render(so_far, row, /*asks_for_answer=*/true));
    so_far.push_back(messages[i]);
    std::string answered = whole;
    if (i + 1 < messages.size()) {
      ASSIGN_OR_RETURN(Rendering until, render(so_far, row, /*asks_for_answer=*/false));
      answered = std::move(until.text);
    }
    if (!whole.starts_with(answered) || !answered.starts_with(asked.text)) {
      return cannot_encode(
          files_.chat_template_name + " does not say which text is the assistant's: " + "message " +
              std::to_string(i) + " is written otherwise when it is asked for",
          "put {% generation %} and {% endgeneration %} around what the assistant says");
    }
    answers.push_back({num_code_points(asked.text), num_code_points(answered)});
  }
  return answers;
}

Result<TokenRow> ConversationTokenizer::encode_completion(const ordered_json& row) const {
  const std::string& asked = options_.layout.asked;
  const std::string& answered = options_.layout.answered;
  ASSIGN_OR_RETURN(ordered_json prompt, value_in(row, asked));
  ASSIGN_OR_RETURN(ordered_json completion, value_in(row, answered));
  if (!prompt.is_string() || !completion.is_string()) {
    ASSIGN_OR_RETURN(prompt, messages_in(row, asked));
    ASSIGN_OR_RETURN(completion, messages_in(row, answered));
  }
  ASSIGN_OR_RETURN(Continued continued, encode_continued(prompt, completion, row));
  return learned_behind(std::move(continued));
}

Result<std::array<TokenRow, 2>> ConversationTokenizer::encode_answers(
    const ordered_json& row) const {
  ASSIGN_OR_RETURN(const AnswerPair pair, pair_in(row, options_.layout));
  ASSIGN_OR_RETURN(Continued chosen, encode_continued(pair.prompt, pair.chosen, row));
  ASSIGN_OR_RETURN(Continued rejected, encode_continued(pair.prompt, pair.rejected, row));
  chosen.num_prompt = rejected.num_prompt = std::min(chosen.num_prompt, rejected.num_prompt);
  return std::array<TokenRow, 2>{learned_behind(std::move(chosen)),
                                 learned_behind(std::move(rejected))};
}

Result<ConversationTokenizer::Continued> ConversationTokenizer::encode_continued(
    const ordered_json& prompt, const ordered_json& completion, const ordered_json& row) const {
  std::string asked;
  std::string all;
  const bool is_text = prompt.is_string();
  if (is_text) {
    asked = prompt.get<std::string>();
    const auto eos = files_.special_tokens.find("eos_token");
    all = asked + completion.get<std::string>();
    if (eos != files_.special_tokens.end() && !all.ends_with(eos->second)) all += eos->second;
  } else {
    ASSIGN_OR_RETURN(Rendering question, render(prompt, row, /*asks_for_answer=*/true));
    asked = std::move(question.text);
    ordered_json messages = prompt;
    messages.insert(messages.end(), completion.begin(), completion.end());
    ASSIGN_OR_RETURN(Rendering both, render(messages, row, /*asks_for_answer=*/false));
    all = std::move(both.text);
  }
  // A rendered text has its special tokens already.
  ASSIGN_OR_RETURN(const Encoding of_prompt, tokenizer_.encode(asked, is_text));
  ASSIGN_OR_RETURN(Encoding of_all, tokenizer_.encode(all, is_text));
  const auto differs = std::mismatch(of_prompt.ids.begin(), of_prompt.ids.end(), of_all.ids.begin(),
                                     of_all.ids.end());
  const auto num_prompt = static_cast<std::size_t>(differs.second - of_all.ids.begin());
  return Continued{.ids = std::move(of_all.ids), .num_prompt = num_prompt};
}

TokenRow ConversationTokenizer::learned_behind(Continued continued) const {
  std::vector<bool> learns(continued.ids.size(), false);
  std::fill(learns.begin() + static_cast<std::ptrdiff_t>(continued.num_prompt), learns.end(), true);
  return labelled(std::move(continued.ids), learns);
}

Result<Rendering> ConversationTokenizer::render(const ordered_json& messages,
                                                const ordered_json& row,
                                                bool asks_for_answer) const {
  if (!template_) return no_template(files_, options_.layout.kind);
  ordered_json variables = {{"messages", messages},
                            {"tools", row.value("tools", ordered_json())},
                            {"documents", nullptr},
                            {"add_generation_prompt", asks_for_answer}};
  for (const auto& [token_name, token] : files_.special_tokens) variables[token_name] = token;
  return template_->render(variables, options_.now);
}

// The row of `ids`, with a label where `learns` says so.
TokenRow ConversationTokenizer::labelled(std::vector<int32_t> ids,
                                         const std::vector<bool>& learns) const {
  TokenRow row{.input_ids = std::move(ids), .labels = {}};
  if (options_.learns_all) return row;
  row.labels.reserve(row.input_ids.size());
  for (std::size_t i = 0; i < row.input_ids.size(); ++i) {
    row.labels.push_back(learns[i] ? row.input_ids[i] : kNoLabel);
  }
  return row;
}

}  // namespace lockstep::runtime

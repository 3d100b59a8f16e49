// The smallest tokenizer.json: words between spaces, <s> before a text.
#pragma once

#include <nlohmann/json.hpp>

namespace lockstep::runtime {

// <unk> 0, a 1, b 2, U+00E9 3, </s> 5, <s> 9.
inline nlohmann::json word_tokenizer() {
  const auto special = [](const char* content, int id) {
    return nlohmann::json{{"id", id},        {"content", content}, {"single_word", false},
                          {"lstrip", false}, {"rstrip", false},    {"normalized", false},
                          {"special", true}};
  };
  const nlohmann::json text = {{"Sequence", {{"id", "A"}, {"type_id", 0}}}};
  const nlohmann::json begin = {{"SpecialToken", {{"id", "<s>"}, {"type_id", 0}}}};
  return {
      {"version", "1.0"},
      {"truncation", nullptr},
      {"padding", nullptr},
      {"added_tokens", {special("</s>", 5), special("<s>", 9)}},
      {"normalizer", nullptr},
      {"pre_tokenizer", {{"type", "WhitespaceSplit"}}},
      {"post_processor",
       {{"type", "TemplateProcessing"},
        {"single", {begin, text}},
        {"pair", {text, text}},
        {"special_tokens", {{"<s>", {{"id", "<s>"}, {"ids", {9}}, {"tokens", {"<s>"}}}}}}}},
      {"decoder", nullptr},
      {"model",
       {{"type", "WordLevel"},
        {"unk_token", "<unk>"},
        {"vocab", {{"<unk>", 0}, {"a", 1}, {"b", 2}, {"\xC3\xA9", 3}, {"</s>", 5}, {"<s>", 9}}}}}};
}

}  // namespace lockstep::runtime

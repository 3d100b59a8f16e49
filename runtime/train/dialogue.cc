#include "runtime/train/dialogue.h"

#include <chrono>
#include <utility>
#include <vector>

#include "runtime/data/byte_tokenizer.h"
#include "runtime/train/run_error.h"
#include "runtime/train/text_stream.h"

namespace lockstep::runtime {
namespace {

using common::ExitCode;
using nlohmann::ordered_json;

ChatTemplate open_template(const SpeakingModel& model) {
  if (!model.vocabulary.files) {
    refuse(model.folder + " has no tokenizer.json, so the model speaks in bytes and has no turns",
           "lockstep generate goes on from a text");
  }
  const TokenizerFolder& files = *model.vocabulary.files;
  if (!files.chat_template) {
    refuse(files.folder +
               " has no chat template: no chat_template.jinja, and none in "
               "tokenizer_config.json",
           "add the chat_template.jinja that the model was trained with; lockstep generate needs "
           "none");
  }
  return value_or_raise(open_chat_template(files), ExitCode::kInvalidConfig);
}

void check_utf8(const std::string& text, const std::string& what) {
  if (const std::string shown = replace_invalid_utf8(text); shown != text) {
    refuse(what + " is not UTF-8: " + shown, "set the terminal to UTF-8, or convert it with iconv");
  }
}

}  // namespace

Dialogue::Dialogue(const SpeakingModel& model, const DialogueOptions& options)
    : model_(model),
      options_(options),
      template_(open_template(model)),
      writer_(model, options.max_tokens),
      random_(options.seed) {
  if (!options.system.empty()) {
    check_utf8(options.system, "the system message");
    messages_.push_back({{"role", "system"}, {"content", options.system}});
  }
}

std::vector<int32_t> Dialogue::tokens_of(const ordered_json& messages) const {
  ordered_json variables = {{"messages", messages},
                            {"tools", nullptr},
                            {"documents", nullptr},
                            {"add_generation_prompt", true}};
  for (const auto& [name, token] : model_.vocabulary.files->special_tokens) variables[name] = token;
  const Rendering rendering = value_or_raise(
      template_.render(variables, std::chrono::system_clock::now()), ExitCode::kInvalidConfig);
  return model_.vocabulary.encode(rendering.text, /*add_special_tokens=*/false);
}

WritingEnd Dialogue::ask(const std::string& text,
                         const std::function<bool(const std::string&)>& say) {
  check_utf8(text, "the message");
  ordered_json messages = messages_;
  messages.push_back({{"role", "user"}, {"content", text}});
  const std::vector<int32_t> tokens = tokens_of(messages);
  const auto count = static_cast<int64_t>(tokens.size());
  if (count == 0) refuse(model_.folder + ": the chat template makes no tokens of the messages");
  if (count > writer_.max_tokens()) {
    refuse("the dialogue has " + std::to_string(count) + " tokens, but there is room for " +
               std::to_string(writer_.max_tokens()),
           "begin a new one; --context makes more room, up to the model's max_position_embeddings");
  }
  TextStream stream(model_.vocabulary);
  std::string answer;
  const auto show = [&](const std::string& piece) {
    answer += piece;
    return say(piece);
  };
  const WritingEnd end = writer_.go_on(tokens, options_.writing, random_,
                                       [&](int32_t token) { return show(stream.add(token)); });
  if (const std::string rest = stream.finish(); !rest.empty()) show(rest);
  messages.push_back({{"role", "assistant"}, {"content", answer}});
  messages_ = std::move(messages);
  return end;
}

}  // namespace lockstep::runtime

// A dialogue with a model: messages in its chat template, answers piece by piece.
#pragma once

#include <cstdint>
#include <functional>
#include <random>
#include <string>

#include <nlohmann/json.hpp>

#include "runtime/text/chat_template.h"
#include "runtime/train/text_writer.h"

namespace lockstep::runtime {

struct DialogueOptions {
  std::string system;         // what it begins with; empty: nothing
  int64_t max_tokens = 4096;  // of the whole dialogue; at most what the model sees is taken
  WritingOptions writing;     // of each answer
  uint64_t seed = 42;
};

class Dialogue {
 public:
  //   model: borrowed, must outlive this object.
  // Throws RunError: kInvalidConfig if it has no tokenizer.json or no chat template, or the system
  // message is not UTF-8.
  Dialogue(const SpeakingModel& model, const DialogueOptions& options);

  // Asks, and gives the answer as it comes, in whole characters. What was said so far goes before.
  //   say: gets each piece; false: the answer ends here, and counts as it is.
  // Throws RunError(kInvalidConfig) if the template refuses the messages, `text` is not UTF-8 or
  // the dialogue has no room for it; it is then as it was.
  WritingEnd ask(const std::string& text, const std::function<bool(const std::string&)>& say);

 private:
  // The tokens up to where the next answer begins.
  std::vector<int32_t> tokens_of(const nlohmann::ordered_json& messages) const;

  const SpeakingModel& model_;
  DialogueOptions options_;
  ChatTemplate template_;
  TextWriter writer_;
  std::mt19937_64 random_;
  nlohmann::ordered_json messages_ = nlohmann::ordered_json::array();
};

}  // namespace lockstep::runtime

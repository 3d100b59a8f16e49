// What `lockstep init` asks before it writes a manifest. Pure.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

namespace lockstep::wizard {

// In the order in which they are asked.
enum class Topic {
  kName,
  kTask,
  kModel,
  kWeights,
  kData,
  kSequence,
  kRanks,
  kBatch,
  kSteps,
  kClaim
};

struct TopicRow {
  Topic topic = Topic::kName;
  const char* flag = "";  // answers the question beforehand: "--model"
  const char* help = "";  // of the flag
  std::vector<std::string>
      fields{};  // of the manifest; what is wrong there is wrong with the answer
};
const std::vector<TopicRow>& topics();

struct Answers {
  std::map<Topic, std::string> given;  // as typed
  // A fact about the folder that kModel names: it makes tokens of text.
  bool model_has_tokenizer = false;
};

// A model that begins from nothing, by its size.
struct ModelSize {
  const char* name;
  const char* parameters;  // "1.7 M"
  int hidden, intermediate, layers, heads, kv_heads;
  const char* lr;  // that suits it
};
const std::vector<ModelSize>& model_sizes();

struct Question {
  std::string text;                    // one line
  std::string fallback{};              // what Enter means; empty: there must be an answer
  std::vector<std::string> choices{};  // for the prompt; empty: any text
};

// The question about `topic` after `answers`; nothing if they leave nothing to ask about it.
std::optional<Question> question_of(Topic topic, const Answers& answers);

// The answer about `topic`: what was given, else the question's fallback; empty without either.
std::string answer_to(Topic topic, const Answers& answers);

// True if the task goes on from a model, with conversations.
bool fine_tunes(const Answers& answers);

// The size that was chosen; null if the model is a folder.
const ModelSize* size_of_model(const Answers& answers);

}  // namespace lockstep::wizard

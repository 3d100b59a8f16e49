#include "operator/wizard/questions.h"

#include <charconv>
#include <cstdint>

namespace lockstep::wizard {
namespace {

constexpr int64_t kUsualBatch = 8;

// The smallest batch that is not tiny and that the ranks divide; the usual one for what is no
// number, of which the question about ranks complains.
std::string batch_for(const std::string& ranks_text) {
  int64_t ranks = 0;
  std::from_chars(ranks_text.data(), ranks_text.data() + ranks_text.size(), ranks);
  if (ranks < 1 || ranks > (1 << 20)) return std::to_string(kUsualBatch);
  return std::to_string((kUsualBatch + ranks - 1) / ranks * ranks);
}

Question about_model(const Answers& answers) {
  if (fine_tunes(answers)) return {.text = "Model: a Hugging Face folder"};
  Question question{.text = "Model: a Hugging Face folder, or a new one:", .fallback = "small"};
  for (const ModelSize& size : model_sizes()) {
    question.text.append(&size == &model_sizes().front() ? " " : ", ");
    question.text.append(size.name).append(" (").append(size.parameters).append(")");
  }
  return question;
}

}  // namespace

const std::vector<TopicRow>& topics() {
  static const std::vector<TopicRow> rows = {
      {Topic::kName, "--name", "name of the job", {"metadata.name"}},
      {Topic::kTask, "--task", "pretrain, sft, dpo, orpo or reward", {"spec.train.task"}},
      {Topic::kModel,
       "--model",
       "a Hugging Face folder, or a new model: tiny, small, medium",
       {"spec.train.model", "spec.train.tokenizer"}},
      {Topic::kWeights,
       "--weights",
       "of a folder: pretrained, or random",
       {"spec.train.model.init"}},
      {Topic::kData,
       "--data",
       "a file, a folder or a pattern to train on",
       {"spec.train.data.train", "spec.train.data.format"}},
      {Topic::kSequence,
       "--sequence-length",
       "tokens of a sequence",
       {"spec.train.data.sequenceLength"}},
      {Topic::kRanks, "--ranks", "processes that train together", {"spec.ranks"}},
      {Topic::kBatch, "--batch", "sequences of a step, over all ranks", {"spec.train.batch"}},
      {Topic::kSteps, "--steps", "optimizer steps to make", {"spec.train.steps"}},
      {Topic::kClaim, "--claim", "volume claim for a cluster's output", {"spec.output"}},
  };
  return rows;
}

const std::vector<ModelSize>& model_sizes() {
  static const std::vector<ModelSize> sizes = {
      {"tiny", "0.13 M", 64, 176, 2, 4, 2, "3e-3"},
      {"small", "1.7 M", 192, 512, 4, 6, 2, "2e-3"},
      {"medium", "12.8 M", 384, 1024, 8, 6, 2, "1e-3"},
  };
  return sizes;
}

bool fine_tunes(const Answers& answers) {
  const std::string task = answer_to(Topic::kTask, answers);
  return task == "sft" || task == "dpo" || task == "orpo" || task == "reward";
}

const ModelSize* size_of_model(const Answers& answers) {
  if (fine_tunes(answers)) return nullptr;  // goes on from a model
  const std::string model = answer_to(Topic::kModel, answers);
  for (const ModelSize& size : model_sizes()) {
    if (model == size.name) return &size;
  }
  return nullptr;
}

std::optional<Question> question_of(Topic topic, const Answers& answers) {
  switch (topic) {
    case Topic::kName:
      return Question{.text = "Name of the job", .fallback = "train"};
    case Topic::kTask:
      return Question{
          .text =
              "Task: learn every token, the answers of conversations, or which of two answers "
              "is better",
          .fallback = "pretrain",
          .choices = {"pretrain", "sft", "dpo", "orpo", "reward"}};
    case Topic::kModel:
      return about_model(answers);
    case Topic::kWeights:
      if (fine_tunes(answers) || size_of_model(answers) != nullptr) return std::nullopt;
      return Question{.text = "First weights: the folder's, or random ones",
                      .fallback = "pretrained",
                      .choices = {"pretrained", "random"}};
    case Topic::kData:
      return Question{.text = fine_tunes(answers)
                                  ? "Conversations: JSON lines, a folder or a pattern of files"
                                  : "Data: a file, a folder or a pattern such as texts/*.txt"};
    case Topic::kSequence:
      return Question{.text = "Tokens of a sequence",
                      .fallback = size_of_model(answers) != nullptr ? "256" : "512"};
    case Topic::kRanks:
      return Question{.text = "Ranks, the processes that train together", .fallback = "2"};
    case Topic::kBatch:
      return Question{.text = "Sequences of a step, over all ranks",
                      .fallback = batch_for(answer_to(Topic::kRanks, answers))};
    case Topic::kSteps:
      return Question{.text = "Steps", .fallback = "200"};
    case Topic::kClaim:
      return Question{.text = "Output on a cluster: a volume claim (here it is runs/NAME)",
                      .fallback = "runs"};
  }
  return std::nullopt;
}

std::string answer_to(Topic topic, const Answers& answers) {
  const auto found = answers.given.find(topic);
  if (found != answers.given.end()) return found->second;
  const std::optional<Question> question = question_of(topic, answers);
  return question ? question->fallback : "";
}

}  // namespace lockstep::wizard

#include "operator/wizard/job_text.h"

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <optional>
#include <vector>

#include <nlohmann/json.hpp>

#include "operator/api/crd.h"
#include "operator/api/training_job.h"

namespace lockstep::wizard {
namespace {

constexpr std::size_t kCommentColumn = 46;

std::optional<int64_t> integer_in(const std::string& text) {
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

// As YAML reads it back: a text as a text, whatever it holds.
std::string scalar(const std::string& text) {
  std::string yaml = api::to_yaml(nlohmann::json(text));
  yaml.pop_back();  // the line's end
  return yaml;
}

std::string number(Topic topic, const Answers& answers) {
  const std::string text = answer_to(topic, answers);
  return integer_in(text) ? text : scalar(text);
}

std::string line(std::size_t indent, const std::string& text, const std::string& comment = "") {
  std::string out(indent, ' ');
  out += text;
  if (!comment.empty()) {
    out.append(out.size() < kCommentColumn ? kCommentColumn - out.size() : 2, ' ');
    out.append("# ").append(comment);
  }
  return out + "\n";
}

std::string heading() {
  return "# Made by lockstep init. All fields and their defaults: lockstep schema --markdown\n"
         "#   lockstep validate FILE   what is wrong, and what was decided for you\n"
         "#   lockstep run FILE        trains here, into runs/NAME\n"
         "#   lockstep submit FILE     trains on a cluster\n";
}

std::string field(const char* name, const std::string& value) {
  return std::string(name).append(": ").append(value);
}

std::string folder_lines(const Answers& answers) {
  const bool has_tokens = answers.model_has_tokenizer || fine_tunes(answers);
  const std::string model = answer_to(Topic::kModel, answers);
  const std::string weights = answer_to(Topic::kWeights, answers);
  std::string out = line(4, "model:");
  out += line(6, field("path", scalar(model.empty() ? "MODEL" : model)),
              "a Hugging Face folder: config.json, weights");
  out += line(6, field("init", scalar(weights.empty() ? "pretrained" : weights)),
              "random: only the config.json is used");
  out += has_tokens ? line(4, "tokenizer: {type: hf}", "the tokenizer.json of model.path")
                    : line(4, "tokenizer: {type: bytes}", "the folder has no tokenizer.json");
  return out;
}

std::string size_lines(const ModelSize& size) {
  const auto row = [](const char* name, int value) {
    return line(8, field(name, std::to_string(value)));
  };
  std::string out = line(4, "model:");
  out += line(6, "config:", std::string(size.parameters) + " parameters; as in a config.json");
  out += line(8, "model_type: llama") + line(8, "vocab_size: 256");
  out += row("hidden_size", size.hidden) + row("intermediate_size", size.intermediate);
  out += row("num_hidden_layers", size.layers) + row("num_attention_heads", size.heads);
  out += row("num_key_value_heads", size.kv_heads);
  out += line(4, "tokenizer: {type: bytes}", "a token is a byte; or {type: hf, path: FOLDER}");
  return out;
}

std::string data_lines(const Answers& answers) {
  const std::string data = answer_to(Topic::kData, answers);
  std::string out = line(4, "data:");
  out += line(6, field("train", scalar(data.empty() ? "DATA" : data)),
              "relative to the current folder");
  out += line(6, "# validation: held-out/*", "to measure the loss on; or validationFraction: 0.05");
  out += line(6, field("sequenceLength", number(Topic::kSequence, answers)), "tokens");
  return out;
}

std::string rate_of(const Answers& answers) {
  if (const ModelSize* const size = size_of_model(answers)) return size->lr;
  return answer_to(Topic::kWeights, answers) == "random" ? "3e-4" : "2e-5";
}

std::string checkpoint_interval(const Answers& answers) {
  const int64_t steps = integer_in(answer_to(Topic::kSteps, answers)).value_or(0);
  return std::to_string(std::max<int64_t>(1, steps / 4));
}

std::string train_lines(const Answers& answers) {
  const ModelSize* const size = size_of_model(answers);
  std::string out = line(2, "train:");
  out += line(4, field("task", scalar(answer_to(Topic::kTask, answers))),
              "pretrain: every token; sft: the assistant's words; others: the better of two");
  out += size != nullptr ? size_lines(*size) : folder_lines(answers);
  out += data_lines(answers);
  out += line(4, "batch:");
  out += line(6, field("globalBatchSize", number(Topic::kBatch, answers)), "sequences of a step");
  out += line(6, "# microBatchSize: 1", "of a forward pass; fewer need less memory");
  out += line(4, field("steps", number(Topic::kSteps, answers)), "or epochs: 3");
  out += line(4, "# precision: bf16", "fp32 unless given");
  out += line(4, field("optimizer", "{lr: ") + rate_of(answers) + "}", "of adamw");
  out += line(4, "# schedule: {name: cosine, warmupRatio: 0.03}", "as without it");
  out += line(4, "# parallelism: {strategy: zero3}", "else validate says what fits");
  out += line(4, field("checkpoint", "{everySteps: ") + checkpoint_interval(answers) + "}",
              "steps that a failure may cost");
  out += line(4, "# evaluation: {everySteps: 50}", "of the validation data");
  return out;
}

}  // namespace

std::string job_text(const Answers& answers) {
  std::string out = heading();
  out.append(field("apiVersion", api::kApiVersion)).append("\n");
  out.append(field("kind", api::kKind)).append("\nmetadata:\n");
  out += line(2, field("name", scalar(answer_to(Topic::kName, answers)))) + "spec:\n";
  out += line(2, field("ranks", number(Topic::kRanks, answers)),
              "any number that divides the batch: same bits");
  out += line(2, "# resources: {limits: {cpu: 4, memory: 8Gi}}", "of one rank, on a cluster");
  out += line(
      2, "# inputs: [{name: data, mountPath: /data, persistentVolumeClaim: {claimName: data}}]");
  out += line(2,
              field("output", "{persistentVolumeClaim: {claimName: ") +
                  scalar(answer_to(Topic::kClaim, answers)) + "}}",
              "on a cluster");
  return out + train_lines(answers);
}

}  // namespace lockstep::wizard

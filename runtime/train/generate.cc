#include "runtime/train/generate.h"

#include <algorithm>
#include <ostream>
#include <random>
#include <span>
#include <sstream>
#include <vector>

#include <nlohmann/json.hpp>

#include "runtime/common/text_file.h"
#include "runtime/train/run_error.h"

namespace lockstep::runtime {
namespace {

using common::ExitCode;

std::vector<std::string> read_prompts(const GenerateOptions& options) {
  if (options.prompts.empty()) return {options.prompt};
  if (!options.prompt.empty()) refuse("--prompt and --prompts exclude each other");
  std::istringstream text(
      value_or_raise(common::read_text_file(options.prompts), ExitCode::kInputNotFound));
  std::vector<std::string> prompts;
  for (std::string line; std::getline(text, line);) prompts.push_back(line);
  if (prompts.empty()) refuse(options.prompts + " has no line", "give it a prompt per line");
  return prompts;
}

struct Sequence {
  std::vector<int32_t> tokens;  // of the prompt; of an empty one what stands before a text
  bool is_prompt_empty = false;
};

Sequence begin_sequence(const SpeakingModel& model, const std::string& prompt) {
  Sequence sequence{.tokens = model.vocabulary.encode(prompt, /*add_special_tokens=*/true)};
  sequence.is_prompt_empty = sequence.tokens.empty();
  if (sequence.is_prompt_empty) {
    if (!model.vocabulary.begin) refuse("the prompt has no tokens", "give --prompt a text");
    sequence.tokens.push_back(*model.vocabulary.begin);
  }
  const auto count = static_cast<int64_t>(sequence.tokens.size());
  if (count > model.config.max_position_embeddings) {
    refuse("the prompt has " + std::to_string(count) + " tokens, but the model sees " +
               std::to_string(model.config.max_position_embeddings) + " (max_position_embeddings)",
           "give a shorter prompt");
  }
  return sequence;
}

// The text of the sequence and what follows it.
std::string write_text(const SpeakingModel& model, TextWriter& writer, Sequence sequence,
                       const GenerateOptions& options) {
  const std::vector<int32_t> prompt = sequence.tokens;
  std::mt19937_64 random(options.seed);
  writer.go_on(prompt, options.writing, random, [&sequence](int32_t token) {
    sequence.tokens.push_back(token);
    return true;
  });
  return model.vocabulary.decode(
      std::span(sequence.tokens).subspan(sequence.is_prompt_empty ? 1 : 0));
}

}  // namespace

void generate(const GenerateOptions& options, std::ostream& out) {
  const std::vector<std::string> prompts = read_prompts(options);
  const SpeakingModel model = load_speaking_model(options.model, options.base);
  std::vector<Sequence> sequences;
  std::size_t longest = 0;
  for (const std::string& prompt : prompts) {
    sequences.push_back(begin_sequence(model, prompt));
    longest = std::max(longest, sequences.back().tokens.size());
  }
  TextWriter writer(model, static_cast<int64_t>(longest) + options.writing.max_new_tokens);
  for (std::size_t i = 0; i < prompts.size(); ++i) {
    const std::string text = write_text(model, writer, sequences[i], options);
    if (options.prompts.empty()) {
      out << text << "\n";
      continue;
    }
    const nlohmann::ordered_json line = {{"prompt", prompts[i]}, {"text", text}};
    out << line.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace) << "\n"
        << std::flush;
  }
}

}  // namespace lockstep::runtime

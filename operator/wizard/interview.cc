#include "operator/wizard/interview.h"

#include <algorithm>

#include <nlohmann/json.hpp>

#include "operator/wizard/job_text.h"
#include "runtime/common/document.h"
#include "runtime/common/suggest.h"

namespace lockstep::wizard {
namespace {

using common::Problem;
using common::Problems;

std::string trimmed(const std::string& text) {
  const std::size_t begin = text.find_first_not_of(" \t\r");
  if (begin == std::string::npos) return "";
  return text.substr(begin, text.find_last_not_of(" \t\r") - begin + 1);
}

bool is_text(const std::string& bytes) {
  try {
    return !nlohmann::json(bytes).dump().empty();
  } catch (const nlohmann::json::type_error&) {  // 316: invalid UTF-8
    return false;
  }
}

bool is_about(const Problem& problem, const TopicRow& row) {
  return std::any_of(row.fields.begin(), row.fields.end(), [&problem](const std::string& field) {
    return common::is_within(problem.path, field);
  });
}

std::string prompt_of(const Question& question, const std::string& fallback) {
  std::string prompt = question.text;
  if (!question.choices.empty()) {
    prompt.append(" (").append(common::join(question.choices, " | ")).append(")");
  }
  if (!fallback.empty()) prompt.append(" [").append(fallback).append("]");
  return prompt + ": ";
}

void tell_problems(const Problems& problems, const Talk& talk) {
  for (const Problem& problem : problems) {
    std::string line = problem.warning ? "  careful: " : "  ";
    line += problem.message;
    if (!problem.hint.empty()) line.append(" (").append(problem.hint).append(")");
    talk.tell(line);
  }
}

// Asks about one topic until its answer stands; false if a line was wanted and none came.
//   offered: an answer that came before, which is looked at first; may be empty.
bool settle(const TopicRow& row, std::string offered, const Talk& talk, const Checks& checks,
            Answers& answers) {
  const std::optional<Question> question = question_of(row.topic, answers);
  if (!question) return true;
  std::string fallback = question->fallback;
  std::string kept;  // an answer with nothing but warnings, told already
  while (true) {
    if (offered.empty()) {
      const std::optional<std::string> line = talk.ask(prompt_of(*question, fallback));
      if (!line) return false;
      offered = trimmed(*line);
      if (offered.empty()) offered = fallback;
      if (offered.empty()) {
        talk.tell("  this has no default");
        continue;
      }
    }
    if (!is_text(offered)) {
      talk.tell("  these bytes are no UTF-8 text (a manifest is; rename the file or folder)");
      offered.clear();
      continue;
    }
    Answers tried = answers;
    tried.given[row.topic] = offered;
    tried = with_facts(std::move(tried), checks);
    const Problems problems = problems_of(row, tried, checks);
    const bool is_kept = offered == kept && !common::has_errors(problems);
    if (problems.empty() || is_kept) {
      answers = std::move(tried);
      return true;
    }
    tell_problems(problems, talk);
    if (!common::has_errors(problems)) {
      talk.tell("  Enter keeps it");
      fallback = kept = offered;
    }
    offered.clear();
  }
}

}  // namespace

Answers with_facts(Answers answers, const Checks& checks) {
  const bool is_folder = size_of_model(answers) == nullptr;
  answers.model_has_tokenizer =
      is_folder && checks.has_tokenizer(answer_to(Topic::kModel, answers));
  return answers;
}

Problems problems_of(const TopicRow& row, const Answers& answers, const Checks& checks) {
  Problems found;
  for (Problem& problem : checks.check(job_text(answers))) {
    if (is_about(problem, row)) found.push_back(std::move(problem));
  }
  return found;
}

std::vector<std::string> unanswered(const Answers& answers) {
  std::vector<std::string> flags;
  for (const TopicRow& row : topics()) {
    if (question_of(row.topic, answers) && answer_to(row.topic, answers).empty()) {
      flags.emplace_back(row.flag);
    }
  }
  return flags;
}

std::optional<Answers> interview(const Answers& given, const Talk& talk, const Checks& checks) {
  Answers answers;
  for (const TopicRow& row : topics()) {
    const auto offered = given.given.find(row.topic);
    const std::string before = offered == given.given.end() ? "" : offered->second;
    if (!settle(row, before, talk, checks, answers)) return std::nullopt;
  }
  return answers;
}

}  // namespace lockstep::wizard

// The conversation of `lockstep init`: asks until every answer stands up to the checks of
// `lockstep validate`.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "operator/wizard/questions.h"
#include "runtime/common/problem.h"

namespace lockstep::wizard {

struct Talk {
  // Shows `prompt` and returns the line that follows; nothing if there is none to come.
  std::function<std::optional<std::string>(const std::string& prompt)> ask;
  std::function<void(const std::string& line)> tell;
};

// Facts that answers need, and what is wrong with the manifest that they make.
struct Checks {
  std::function<bool(const std::string& folder)> has_tokenizer;
  std::function<common::Problems(const std::string& manifest)> check;
};

// `answers` with the facts about them.
Answers with_facts(Answers answers, const Checks& checks);

// What the checks say about the fields that the answer to `row` decides; nothing of other answers.
common::Problems problems_of(const TopicRow& row, const Answers& answers, const Checks& checks);

// Flags of the questions that have no answer and no fallback.
std::vector<std::string> unanswered(const Answers& answers);

// Asks about every topic that `given` leaves open, and again about what is wrong, telling why; a
// warning lets the same answer pass at Enter. Nothing if a line was wanted and none came.
std::optional<Answers> interview(const Answers& given, const Talk& talk, const Checks& checks);

}  // namespace lockstep::wizard

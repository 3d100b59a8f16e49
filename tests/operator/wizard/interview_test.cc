#include "operator/wizard/interview.h"

#include <deque>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "operator/api/manifest.h"
#include "operator/wizard/job_text.h"

namespace lockstep::wizard {
namespace {

using common::Problem;
using common::Problems;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// A person who types `lines`, and then ends the input.
struct Person {
  std::deque<std::string> lines;
  std::vector<std::string> prompts{}, told{};

  Talk talk() {
    return {.ask = [this](const std::string& prompt) -> std::optional<std::string> {
              prompts.push_back(prompt);
              if (lines.empty()) return std::nullopt;
              std::string line = lines.front();
              lines.pop_front();
              return line;
            },
            .tell = [this](const std::string& line) { told.push_back(line); }};
  }
};

Checks checks() {
  return {.has_tokenizer = [](const std::string& folder) { return folder == "with-tokenizer"; },
          .check =
              [](const std::string& text) {
                return api::parse_manifest(text, {.file_name = "job.yaml"}).problems;
              }};
}

TEST(InterviewTest, EnterTakesEveryDefaultButTheData) {
  Person person{.lines = {"", "", "", "", "corpus.txt", "", "", "", "", ""}};
  const auto answers = interview({}, person.talk(), checks());
  ASSERT_TRUE(answers.has_value());
  EXPECT_THAT(person.told, ElementsAre("  this has no default"));
  EXPECT_THAT(person.prompts, Contains("Sequences of a step, over all ranks [8]: "));
  EXPECT_EQ(answer_to(Topic::kModel, *answers), "small");
  EXPECT_THAT(checks().check(job_text(*answers)), IsEmpty());
}

TEST(InterviewTest, AWrongAnswerIsAskedAgainWithTheReason) {
  Person person{.lines = {"My Job", "my-job", "grpo", "", "", "corpus.txt", "0", "64", "x", "3",
                          "8", "9", "-1", "5", ""}};
  const auto answers = interview({}, person.talk(), checks());
  ASSERT_TRUE(answers.has_value());
  EXPECT_EQ(answer_to(Topic::kBatch, *answers), "9");
  EXPECT_EQ(answer_to(Topic::kSteps, *answers), "5");
  EXPECT_EQ(person.told.size(), 6U) << ::testing::PrintToString(person.told);
  EXPECT_THAT(person.told, Contains(HasSubstr("cannot share evenly")));
  EXPECT_THAT(person.told, Contains(HasSubstr("grpo")));
  EXPECT_THAT(checks().check(job_text(*answers)), IsEmpty());
}

TEST(InterviewTest, WhatWasGivenIsNotAskedUnlessItIsWrong) {
  const Answers given{.given = {{Topic::kName, "named"},
                                {Topic::kTask, "pretrain"},
                                {Topic::kModel, "tiny"},
                                {Topic::kData, "corpus.txt"},
                                {Topic::kSequence, "64"},
                                {Topic::kRanks, "0"},
                                {Topic::kBatch, "4"},
                                {Topic::kSteps, "10"},
                                {Topic::kClaim, "runs"}}};
  Person person{.lines = {"4"}};
  const auto answers = interview(given, person.talk(), checks());
  ASSERT_TRUE(answers.has_value());
  EXPECT_THAT(person.prompts, ElementsAre("Ranks, the processes that train together [2]: "));
  EXPECT_EQ(person.told.size(), 1U);
  EXPECT_EQ(answer_to(Topic::kRanks, *answers), "4");
}

TEST(InterviewTest, AnEndOfInputAnywhereIsNoAnswer) {
  const std::deque<std::string> whole = {"", "", "", "corpus.txt", "", "", "", "", ""};
  for (std::size_t count = 0; count < whole.size(); ++count) {
    Person person{.lines = {whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(count)}};
    EXPECT_FALSE(interview({}, person.talk(), checks()).has_value()) << count;
  }
  Person person{.lines = whole};
  EXPECT_TRUE(interview({}, person.talk(), checks()).has_value());
}

TEST(InterviewTest, EnterKeepsWhatIsOnlyWarnedOf) {
  Checks careful = checks();
  careful.check = [](const std::string& text) -> Problems {
    if (text.find("nowhere.txt") == std::string::npos) return {};
    return {{.path = "spec.train.data.train",
             .message = "nothing matches",
             .hint = "",
             .warning = true}};
  };
  Person keeps{.lines = {"", "", "", "nowhere.txt", "", "", "", "", "", ""}};
  const auto kept = interview({}, keeps.talk(), careful);
  ASSERT_TRUE(kept.has_value());
  EXPECT_EQ(answer_to(Topic::kData, *kept), "nowhere.txt");
  EXPECT_THAT(keeps.told, ElementsAre("  careful: nothing matches", "  Enter keeps it"));
  Person mends{.lines = {"", "", "", "nowhere.txt", "corpus.txt", "", "", "", "", ""}};
  const auto mended = interview({}, mends.talk(), careful);
  ASSERT_TRUE(mended.has_value());
  EXPECT_EQ(answer_to(Topic::kData, *mended), "corpus.txt");
}

TEST(InterviewTest, AFolderIsAskedForItsWeightsAndAFineTuneForAFolder) {
  Person folder{.lines = {"", "", "with-tokenizer", "random", "corpus.txt", "", "", "", "", ""}};
  const auto answers = interview({}, folder.talk(), checks());
  ASSERT_TRUE(answers.has_value());
  EXPECT_TRUE(answers->model_has_tokenizer);
  EXPECT_THAT(job_text(*answers), HasSubstr("init: random"));
  Person tunes{.lines = {"", "sft", "", "llama", "chats.jsonl", "", "", "", "", ""}};
  const auto tuned = interview({}, tunes.talk(), checks());
  ASSERT_TRUE(tuned.has_value());
  EXPECT_THAT(tunes.told, ElementsAre("  this has no default"));
  EXPECT_THAT(job_text(*tuned), HasSubstr("init: pretrained"));
}

TEST(InterviewTest, FlagsThatAreMissingAreNamed) {
  EXPECT_THAT(unanswered({}), ElementsAre("--data"));
  EXPECT_THAT(unanswered({.given = {{Topic::kTask, "sft"}}}), ElementsAre("--model", "--data"));
  EXPECT_THAT(unanswered({.given = {{Topic::kData, "corpus.txt"}}}), IsEmpty());
}

}  // namespace
}  // namespace lockstep::wizard

#include "operator/wizard/job_text.h"

#include <array>
#include <cstdio>
#include <regex>
#include <sstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "operator/api/manifest.h"
#include "runtime/common/estimate_memory.h"
#include "runtime/common/train_config.h"

namespace lockstep::wizard {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

std::vector<std::string> errors_of(const std::string& text) {
  std::vector<std::string> errors;
  for (const common::Problem& problem :
       api::parse_manifest(text, {.file_name = "job.yaml"}).problems)
    errors.push_back(common::to_string(problem, "job.yaml"));
  return errors;
}

Answers with(std::map<Topic, std::string> given) {
  given.emplace(Topic::kData, "corpus.txt");
  return {.given = std::move(given)};
}

// Every field that the text offers in a comment, brought in.
std::string uncommented(const std::string& text) {
  static const std::regex offered("^( +)# ([a-zA-Z]+: .*)$");
  std::string out;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);)
    out += std::regex_replace(line, offered, "$1$2") + "\n";
  return out;
}

TEST(JobTextTest, EveryKindOfAnswerMakesAValidManifestAndSoDoesWhatItOffers) {
  const std::vector<Answers> cases = {
      with({}),
      with({{Topic::kModel, "tiny"}}),
      with({{Topic::kModel, "medium"}, {Topic::kRanks, "12"}, {Topic::kSteps, "1"}}),
      with({{Topic::kModel, "models/llama"}}),
      with({{Topic::kModel, "models/llama"}, {Topic::kWeights, "random"}}),
      with({{Topic::kTask, "sft"}, {Topic::kModel, "models/llama"}}),
      with({{Topic::kTask, "dpo"}, {Topic::kModel, "models/llama"}}),
      with({{Topic::kModel, "a: {b} # \"c\""}, {Topic::kData, "yes"}, {Topic::kClaim, "no"}}),
  };
  for (Answers answers : cases) {
    for (const bool has_tokenizer : {false, true}) {
      answers.model_has_tokenizer = has_tokenizer;
      const std::string text = job_text(answers);
      EXPECT_THAT(errors_of(text), IsEmpty()) << text;
      const std::string all = uncommented(text);
      EXPECT_THAT(all, HasSubstr("\n    precision: bf16"));
      EXPECT_THAT(errors_of(all), IsEmpty()) << all;
    }
  }
}

TEST(JobTextTest, AnswersAreWhatTheManifestHas) {
  const Answers answers = with({{Topic::kName, "mine"},
                                {Topic::kTask, "sft"},
                                {Topic::kModel, "on: a disk"},
                                {Topic::kData, "chats/*.jsonl"},
                                {Topic::kSequence, "128"},
                                {Topic::kRanks, "3"},
                                {Topic::kBatch, "6"},
                                {Topic::kSteps, "40"},
                                {Topic::kClaim, "big-disk"}});
  const api::Manifest manifest = api::parse_manifest(job_text(answers), {.file_name = "job.yaml"});
  ASSERT_THAT(manifest.problems, IsEmpty());
  EXPECT_EQ(manifest.job.meta.name, "mine");
  EXPECT_EQ(manifest.job.spec.ranks, 3);
  EXPECT_EQ(manifest.job.spec.output["persistentVolumeClaim"]["claimName"], "big-disk");
  const nlohmann::json& train = manifest.job.spec.train;
  EXPECT_EQ(train["task"], "sft");
  EXPECT_EQ(train["model"]["path"], "on: a disk");
  EXPECT_EQ(train["tokenizer"]["type"], "hf");
  EXPECT_EQ(train["data"]["train"], "chats/*.jsonl");
  EXPECT_EQ(train["data"]["sequenceLength"], 128);
  EXPECT_EQ(train["batch"]["globalBatchSize"], 6);
  EXPECT_EQ(train["steps"], 40);
  EXPECT_EQ(train["checkpoint"]["everySteps"], 10);
}

TEST(JobTextTest, AWrongAnswerStandsWhereItIsComplainedOf) {
  EXPECT_THAT(errors_of(job_text(with({{Topic::kRanks, "two"}}))),
              ElementsAre(HasSubstr("spec.ranks: ")));
  EXPECT_THAT(errors_of(job_text(with({{Topic::kSteps, "1 # or\n  more: 2"}}))),
              ElementsAre(HasSubstr("spec.train.steps: ")));
  EXPECT_THAT(errors_of(job_text(with({{Topic::kTask, "grpo"}}))),
              ElementsAre(HasSubstr("spec.train.task: ")));
  EXPECT_THAT(errors_of(job_text(with({{Topic::kName, "No_Name"}}))),
              ElementsAre(HasSubstr("metadata.name: ")));
}

TEST(JobTextTest, SizesHaveTheParametersThatTheyAreSaidToHave) {
  for (const ModelSize& size : model_sizes()) {
    const api::Manifest manifest = api::parse_manifest(job_text(with({{Topic::kModel, size.name}})),
                                                       {.file_name = "job.yaml"});
    const auto complete = common::complete_train(manifest.job.spec.train, manifest.job.spec.ranks);
    ASSERT_TRUE(complete) << complete.error().message;
    const double millions =
        static_cast<double>(common::num_parameters(common::decode_train(*complete).model)) / 1e6;
    std::array<char, 32> text{};
    std::snprintf(text.data(), text.size(), millions < 1 ? "%.2f M" : "%.1f M", millions);
    EXPECT_STREQ(size.parameters, text.data()) << size.name;
  }
}

TEST(JobTextTest, OnlyAFolderWithATokenizerIsSaidToHaveOne) {
  Answers answers = with({{Topic::kModel, "models/llama"}});
  EXPECT_THAT(job_text(answers), HasSubstr("tokenizer: {type: bytes}"));
  answers.model_has_tokenizer = true;
  EXPECT_THAT(job_text(answers), HasSubstr("tokenizer: {type: hf}"));
  EXPECT_THAT(job_text(with({})), Not(HasSubstr("path: models")));
}

}  // namespace
}  // namespace lockstep::wizard

#include "operator/local/input_files.h"

#include <filesystem>
#include <fstream>

#include <gtest/gtest.h>
#include <unistd.h>

namespace lockstep::local {
namespace {

common::Problems missing(const std::string& pattern) {
  api::TrainingJob job;
  job.spec.train = {{"data", {{"train", pattern}}}};
  return find_missing_inputs(job);
}

TEST(InputFilesTest, PathGlobAndBracesThatMatchAreFine) {
  EXPECT_TRUE(missing("/proc/self/status").empty());
  EXPECT_TRUE(missing("/proc/self/stat*").empty());
  EXPECT_TRUE(missing("/proc/{self,no-such-folder}").empty());
}

TEST(InputFilesTest, PatternThatMatchesNothingIsAWarningThatNamesIt) {
  const common::Problems problems = missing("/no/such/*.txt");
  ASSERT_EQ(problems.size(), 1u);
  EXPECT_TRUE(problems[0].warning);
  EXPECT_EQ(problems[0].path, "spec.train.data.train");
  EXPECT_NE(problems[0].message.find("/no/such/*.txt"), std::string::npos);
}

TEST(InputFilesTest, ValidationDataIsLookedForToo) {
  api::TrainingJob job;
  job.spec.train = {{"data", {{"train", "/proc/self/status"}, {"validation", "/no/held-out"}}}};
  const common::Problems problems = find_missing_inputs(job);
  ASSERT_EQ(problems.size(), 1u);
  EXPECT_EQ(problems[0].path, "spec.train.data.validation");
}

TEST(InputFilesTest, EverySourceIsLookedFor) {
  api::TrainingJob job;
  job.spec.train = {{"data",
                     {{"sources",
                       {{{"path", "/proc/self/status"}},
                        {{"path", "hf://org/talks"}},
                        {{"path", "/no/books"}}}}}}};
  const common::Problems problems = find_missing_inputs(job);
  ASSERT_EQ(problems.size(), 1u);
  EXPECT_EQ(problems[0].path, "spec.train.data.sources[2].path");
}

TEST(InputFilesTest, WhatIsOnTheHubIsNotLookedForButSaid) {
  api::TrainingJob job;
  job.spec.train = {{"model", {{"path", "hf://org/name"}}},
                    {"data", {{"train", "hf://org/talks@v1/*.jsonl"}}}};
  EXPECT_TRUE(find_missing_inputs(job).empty());
  EXPECT_TRUE(find_model_problems(job).empty());
  const std::vector<std::string> lines = explain_hub_inputs(job);
  ASSERT_EQ(lines.size(), 2u);
  EXPECT_EQ(lines[0],
            "train.model.path: hf://org/name is fetched from the hub when ranks start, "
            "once per node");
  EXPECT_TRUE(lines[1].starts_with("train.data.train: hf://org/talks@v1/*.jsonl is")) << lines[1];
  job.spec.train = {{"data", {{"train", "/proc/self/status"}}}};
  EXPECT_TRUE(explain_hub_inputs(job).empty());
}

TEST(InputFilesTest, TheModelsDirectoryIsLookedForAndWhatIsThereIsChecked) {
  const std::filesystem::path folder =
      testing::TempDir() + "lockstep-model-" + std::to_string(::getpid());
  std::filesystem::create_directories(folder);
  api::TrainingJob job;
  job.spec.train = {{"model", {{"path", folder.string()}}}};
  const common::Problems missing_problems = find_missing_inputs(job);
  ASSERT_EQ(missing_problems.size(), 1u);
  EXPECT_TRUE(missing_problems[0].warning);
  EXPECT_EQ(missing_problems[0].path, "spec.train.model.path");
  EXPECT_TRUE(find_model_problems(job).empty()) << "the ranks may see it";

  std::ofstream(folder / "config.json") << R"({"model_type": "mamba"})";
  EXPECT_TRUE(find_missing_inputs(job).empty());
  const common::Problems problems = find_model_problems(job);
  ASSERT_EQ(problems.size(), 1u);
  EXPECT_FALSE(problems[0].warning);
  EXPECT_NE(problems[0].message.find("config.json: model_type: found \"mamba\""),
            std::string::npos);
  std::filesystem::remove_all(folder);
}

TEST(InputFilesTest, ATokenizerOfItsOwnIsLookedForToo) {
  api::TrainingJob job;
  job.spec.train = {{"tokenizer", {{"type", "hf"}, {"path", "/no/tokenizer"}}}};
  const common::Problems problems = find_missing_inputs(job);
  ASSERT_EQ(problems.size(), 1u);
  EXPECT_TRUE(problems[0].warning);
  EXPECT_EQ(problems[0].path, "spec.train.tokenizer.path");
  job.spec.train["tokenizer"]["path"] = "/proc/self/status";
  EXPECT_TRUE(find_missing_inputs(job).empty());
}

TEST(InputFilesTest, AProgramOfTheUsersOwnHasNoInputsToLookFor) {
  api::TrainingJob job;
  job.spec.command = {"sleep"};
  EXPECT_TRUE(find_missing_inputs(job).empty());
}

}  // namespace
}  // namespace lockstep::local

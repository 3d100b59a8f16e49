#include "operator/local/input_files.h"

#include <gtest/gtest.h>

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

TEST(InputFilesTest, AProgramOfTheUsersOwnHasNoInputsToLookFor) {
  api::TrainingJob job;
  job.spec.command = {"sleep"};
  EXPECT_TRUE(find_missing_inputs(job).empty());
}

}  // namespace
}  // namespace lockstep::local

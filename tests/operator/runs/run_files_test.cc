#include "operator/runs/run_files.h"

#include <filesystem>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/runtime/data/temp_folder.h"

namespace lockstep::runs {
namespace {

using common::ErrorCode;
using runtime::TempFolder;
using runtime::write_text;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

TEST(RunFilesTest, ReadsWhatARunLeaves) {
  const TempFolder folder;
  write_text(folder / "metrics.jsonl", "m");
  write_text(folder / "run.json", "r");
  write_text(folder / "finished.json", "f");
  write_text(folder / "checkpoints/step-100/manifest.json", "c");
  write_text(folder / "checkpoints/step-100/rank-0.bin", "12345");
  write_text(folder / "checkpoints/step-20/manifest.json", "b");
  write_text(folder / "checkpoints/step-30/rank-0.bin", "no manifest: no checkpoint");
  write_text(folder / "checkpoints/damaged-step-10/manifest.json", "x");
  write_text(folder / "logs/my-job-2.json", "two");
  write_text(folder / "logs/my-job-10.json", "ten");
  write_text(folder / "logs/attempt-10/rank-0.log", "l10");
  write_text(folder / "logs/attempt-2/rank-10.log", "l2.10");
  write_text(folder / "logs/attempt-2/rank-9.log", "l2.9");
  write_text(folder / "logs/attempt-2/rank-9.end", "why");
  write_text(folder / "model/config.json", "{}");
  const auto files = read_run_files(folder.path());
  ASSERT_TRUE(files.has_value());
  EXPECT_EQ(files->metrics, "m");
  EXPECT_EQ(files->run, "r");
  EXPECT_EQ(files->finished, "f");
  EXPECT_EQ(files->job, "ten");
  EXPECT_TRUE(files->has_model);
  ASSERT_EQ(files->checkpoints.size(), 2U);
  EXPECT_EQ(files->checkpoints[0].step, 20);
  EXPECT_EQ(files->checkpoints[1].manifest, "c");
  EXPECT_EQ(files->checkpoints[1].bytes, 6);
  ASSERT_EQ(files->logs.size(), 3U);
  EXPECT_EQ(files->logs[0].termination, "why");
  EXPECT_EQ(files->logs[1].text, "l2.10");
  EXPECT_EQ(files->logs[2].attempt, 10);
  EXPECT_THAT(files->unreadable, IsEmpty());
}

TEST(RunFilesTest, RefusesWhatIsNoRun) {
  const TempFolder folder;
  EXPECT_EQ(read_run_files(folder / "absent").error().code, ErrorCode::kNotFound);
  EXPECT_EQ(read_run_files(folder.path()).error().code, ErrorCode::kInvalidArgument);
  write_text(folder / "notes.txt", "mine");
  EXPECT_THAT(read_run_files(folder.path()).error().message, HasSubstr("no run has been here"));
  EXPECT_THAT(read_run_files(folder / "notes.txt").error().message, HasSubstr("not a folder"));
}

TEST(RunFilesTest, NamesWhatItCannotRead) {
  const TempFolder folder;
  std::filesystem::create_directories(folder / "metrics.jsonl");
  write_text(folder / "logs", "a file");
  const auto files = read_run_files(folder.path());
  ASSERT_TRUE(files.has_value());
  EXPECT_FALSE(files->metrics.has_value());
  EXPECT_THAT(files->unreadable,
              ElementsAre(HasSubstr("metrics.jsonl is not a readable file"), HasSubstr("logs")));
}

TEST(RunFilesTest, KeepsBeginAndEndOfALongLog) {
  const TempFolder folder;
  write_text(folder / "logs/attempt-0/rank-0.log",
             "begin" + std::string(std::size_t{1} << 20, '.') + "end");
  const auto files = read_run_files(folder.path());
  ASSERT_TRUE(files.has_value());
  const std::string& text = files->logs.front().text;
  EXPECT_LT(text.size(), std::size_t{1} << 19);
  EXPECT_TRUE(text.starts_with("begin") && text.ends_with("end"));
}

}  // namespace
}  // namespace lockstep::runs

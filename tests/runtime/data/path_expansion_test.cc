#include "runtime/data/path_expansion.h"

#include <filesystem>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/runtime/data/temp_folder.h"

namespace lockstep::runtime {
namespace {

using common::ErrorCode;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(ExpandBracesTest, FollowsTheTable) {
  EXPECT_THAT(expand_braces("plain"), ElementsAre("plain"));
  EXPECT_THAT(expand_braces("a{b,c}d"), ElementsAre("abd", "acd"));
  EXPECT_THAT(expand_braces("{a,b}{1,2}"), ElementsAre("a1", "a2", "b1", "b2"));
  EXPECT_THAT(expand_braces("{a,b{1,2}}x"), ElementsAre("ax", "b1x", "b2x"));
  EXPECT_THAT(expand_braces("{,un}do"), ElementsAre("do", "undo"));
  EXPECT_THAT(expand_braces("a{b,c"), ElementsAre("a{b,c"));
  EXPECT_THAT(expand_braces("a}b"), ElementsAre("a}b"));
}

class ExpandPathsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    write_text(folder_ / "b.txt", "b");
    write_text(folder_ / "a.txt", "a");
    write_text(folder_ / "sub/deep/c.md", "c");
    write_text(folder_ / "sub/.hidden/d.md", "d");
    write_text(folder_ / ".secret", "s");
    write_text(folder_ / "image.bin", std::string("x\0y", 3));
    write_text(folder_ / "empty.txt", "");
  }

  TempFolder folder_;
};

TEST_F(ExpandPathsTest, FolderIsSearchedRecursivelyInSortedOrderAndSkippedFilesAreCounted) {
  const auto found = expand_paths(folder_.path());

  ASSERT_TRUE(found);
  EXPECT_THAT(found->files,
              ElementsAre(folder_ / "a.txt", folder_ / "b.txt", folder_ / "sub/deep/c.md"));
  EXPECT_EQ(found->num_hidden_skipped, 2);
  EXPECT_EQ(found->num_binary_skipped, 1);
  EXPECT_EQ(found->num_empty_skipped, 1);
}

TEST_F(ExpandPathsTest, FileGlobAndBracesFindTheirFilesOnce) {
  EXPECT_THAT(expand_paths(folder_ / "b.txt")->files, ElementsAre(folder_ / "b.txt"));
  EXPECT_THAT(expand_paths(folder_ / "?.txt")->files,
              ElementsAre(folder_ / "a.txt", folder_ / "b.txt"));
  EXPECT_THAT(expand_paths(folder_ / "{sub,a.txt,[a]*}")->files,
              ElementsAre(folder_ / "a.txt", folder_ / "sub/deep/c.md"));
}

TEST_F(ExpandPathsTest, ExistingPathIsNotReadAsGlob) {
  write_text(folder_ / "{a,b}[1]*.txt", "x");
  EXPECT_THAT(expand_paths(folder_ / "{a,b}[1]*.txt")->files,
              ElementsAre(folder_ / "{a,b}[1]*.txt"));
}

TEST_F(ExpandPathsTest, HiddenFolderThatTheUserNamesIsRead) {
  EXPECT_THAT(expand_paths(folder_ / "sub/.hidden")->files,
              ElementsAre(folder_ / "sub/.hidden/d.md"));
}

TEST_F(ExpandPathsTest, NulByteBehindTheFirst8KiBDoesNotMakeAFileBinary) {
  std::string text(8193, 'x');
  text[8192] = '\0';
  write_text(folder_ / "late/8192.txt", text);
  text[8191] = '\0';
  write_text(folder_ / "late/8191.txt", text);
  const auto found = expand_paths(folder_ / "late");
  EXPECT_THAT(found->files, ElementsAre(folder_ / "late/8192.txt"));
}

TEST_F(ExpandPathsTest, LinkToItsOwnFolderDoesNotTrapTheSearch) {
  std::filesystem::create_directory_symlink(folder_.path(), folder_ / "sub/loop");
  std::filesystem::create_symlink(folder_ / "nowhere", folder_ / "sub/dangling");
  EXPECT_EQ(expand_paths(folder_.path())->files.size(), 3u);
}

TEST_F(ExpandPathsTest, MissingPathNamesItselfAndWherePathsStart) {
  const auto found = expand_paths(folder_ / "{a.txt,typo}");
  ASSERT_FALSE(found);
  EXPECT_EQ(found.error().code, ErrorCode::kNotFound);
  EXPECT_THAT(found.error().message, HasSubstr(folder_ / "typo"));
  EXPECT_THAT(found.error().message, HasSubstr("{a.txt,typo}"));
  EXPECT_THAT(found.error().hint, HasSubstr(std::filesystem::current_path().string()));
}

TEST_F(ExpandPathsTest, GlobWithoutMatchIsNotFound) {
  const auto found = expand_paths(folder_ / "*.csv");
  ASSERT_FALSE(found);
  EXPECT_EQ(found.error().code, ErrorCode::kNotFound);
  EXPECT_THAT(found.error().message, HasSubstr("*.csv"));
}

TEST_F(ExpandPathsTest, OnlySkippedFilesAreAnEmptyCorpusWithCounts) {
  const auto found = expand_paths(folder_ / "{image.bin,empty.txt}");
  ASSERT_FALSE(found);
  EXPECT_EQ(found.error().code, ErrorCode::kInvalidArgument);
  EXPECT_THAT(found.error().message, HasSubstr("empty corpus"));
  EXPECT_THAT(found.error().message, HasSubstr("1 empty, 1 binary, 0 hidden"));
}

TEST_F(ExpandPathsTest, DoubleStarIsRefusedWithAHint) {
  const auto found = expand_paths(folder_ / "**/*.md");
  ASSERT_FALSE(found);
  EXPECT_EQ(found.error().code, ErrorCode::kInvalidArgument);
  EXPECT_THAT(found.error().hint, HasSubstr("recursively"));
}

}  // namespace
}  // namespace lockstep::runtime

// Rules of the tree that a reviewer should not have to look for.
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>

#include <gtest/gtest.h>

#include "tests/repo/include_rules.h"
#include "tests/support/paths.h"

namespace lockstep::repo {
namespace {

namespace fs = std::filesystem;

struct SourceFile {
  std::string path;  // from the root
  std::string text;
};

std::vector<SourceFile> read_tree(const std::vector<std::string>& folders,
                                  const std::vector<std::string>& extensions) {
  const fs::path root = support::kSourceTree;
  std::vector<SourceFile> files;
  for (const std::string& folder : folders) {
    for (const fs::directory_entry& entry : fs::recursive_directory_iterator(root / folder)) {
      const std::string extension = entry.path().extension().string();
      if (!entry.is_regular_file() ||
          std::find(extensions.begin(), extensions.end(), extension) == extensions.end()) {
        continue;
      }
      std::ostringstream text;
      text << std::ifstream(entry.path()).rdbuf();
      files.push_back({fs::relative(entry.path(), root).string(), text.str()});
    }
  }
  return files;
}

std::vector<SourceFile> sources() {
  return read_tree({"operator", "runtime", "tests"}, {".h", ".cc"});
}

TEST(IncludeRulesTest, ArrowsPointOneWay) {
  EXPECT_FALSE(forbidden_include("operator/plan/plan.cc", "operator/api/training_job.h"));
  EXPECT_FALSE(forbidden_include("operator/plan/plan.cc", "operator/plan/names.h"));
  EXPECT_TRUE(forbidden_include("operator/plan/plan.cc", "operator/kube/client.h"));
  EXPECT_TRUE(forbidden_include("operator/api/codec.cc", "runtime/train/trainer.h"));
  EXPECT_TRUE(forbidden_include("runtime/common/log.cc", "operator/api/codec.h"));
  EXPECT_TRUE(forbidden_include("runtime/model/head.cc", "runtime/parallel/parallelism.h"));
  EXPECT_TRUE(forbidden_include("operator/kube/store.h", "operator/api/training_job.h"));
  EXPECT_TRUE(forbidden_include("operator/novel/new.cc", "runtime/common/result.h"));
}

TEST(RepoRulesTest, IncludesFollowTheStructure) {
  const std::vector<SourceFile> files = sources();
  ASSERT_GT(files.size(), 50u);
  for (const SourceFile& file : files) {
    for (const std::string& included : project_includes(file.text)) {
      const std::optional<std::string> why = forbidden_include(file.path, included);
      EXPECT_FALSE(why.has_value()) << file.path << ": " << *why << " (" << included << ")";
    }
  }
}

TEST(RepoRulesTest, OperatorNeverIncludesTorch) {
  for (const SourceFile& file : read_tree({"operator", "runtime/common"}, {".h", ".cc"})) {
    for (const char* header : {"<torch/", "<ATen/", "<c10/"}) {
      EXPECT_EQ(file.text.find(std::string("#include ") + header), std::string::npos) << file.path;
    }
  }
}

TEST(RepoRulesTest, FilesStayUnder400Lines) {
  for (const SourceFile& file : sources()) {
    EXPECT_LE(std::count(file.text.begin(), file.text.end(), '\n'), 400)
        << file.path << " hides a noun: split it";
  }
}

TEST(RepoRulesTest, SourcesAreAscii) {
  for (const SourceFile& file : sources()) {
    const bool ascii = std::all_of(file.text.begin(), file.text.end(),
                                   [](char c) { return static_cast<unsigned char>(c) < 128; });
    EXPECT_TRUE(ascii) << file.path;
  }
}

TEST(RepoRulesTest, HeadersUsePragmaOnce) {
  for (const SourceFile& file : read_tree({"operator", "runtime", "tests"}, {".h"})) {
    EXPECT_NE(file.text.find("#pragma once\n"), std::string::npos) << file.path;
  }
}

TEST(RepoRulesTest, NoClassIsNamedForNothing) {
  for (const SourceFile& file : sources()) {
    std::istringstream words(file.text);
    for (std::string before, word; words >> word; before = word) {
      if (before != "class" && before != "struct") continue;
      for (const char* vague : {"Manager", "Engine", "Helper", "Utils", "Context"}) {
        EXPECT_FALSE(word.ends_with(vague)) << file.path << ": " << word;
      }
    }
  }
}

TEST(RepoRulesTest, NoTestIsSwitchedOff) {
  // Split so that this file does not match itself.
  const std::string skip = std::string("GTEST_") + "SKIP";
  const std::string disabled = std::string("DISABLED") + "_";
  for (const SourceFile& file : read_tree({"tests"}, {".h", ".cc"})) {
    EXPECT_EQ(file.text.find(skip), std::string::npos) << file.path;
    EXPECT_EQ(file.text.find(disabled), std::string::npos) << file.path;
  }
}

}  // namespace
}  // namespace lockstep::repo

#include "runtime/hub/repo_tree.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace lockstep::runtime {
namespace {

using testing::HasSubstr;

const std::string kSha1(40, 'a');
const std::string kSha256(64, 'b');

std::string page(const std::string& path, const std::string& oid) {
  return R"([{"type":"directory","oid":"x","path":"d"},{"type":"file","size":3,"oid":")" + oid +
         R"(","path":")" + path + R"("}])";
}

TEST(RepoTreeTest, ChecksumsAreOfTheContents) {
  RepoTree tree;
  ASSERT_TRUE(add_tree_page(page("a/config.json", kSha1), tree));
  ASSERT_TRUE(add_tree_page(R"([{"type":"file","path":"m.safetensors","size":9,"oid":")" + kSha1 +
                                R"(","xetHash":"x","lfs":{"oid":")" + kSha256 +
                                R"(","size":9,"pointerSize":134}}])",
                            tree));
  ASSERT_EQ(tree.size(), 2U);
  EXPECT_EQ(tree.at("a/config.json").etag(), kSha1);
  EXPECT_EQ(tree.at("a/config.json").num_bytes, 3);
  EXPECT_EQ(tree.at("m.safetensors").etag(), kSha256);
  EXPECT_EQ(tree.at("m.safetensors").num_bytes, 9);
}

TEST(RepoTreeTest, NamesThatLeadOutOfTheCacheAreRefused) {
  for (const char* const path : {"../x", "/etc/x", "a/../../x", "a//b", "", "."}) {
    RepoTree tree;
    const auto added = add_tree_page(page(path, kSha1), tree);
    ASSERT_FALSE(added) << path;
    EXPECT_EQ(added.error().code, common::ErrorCode::kDataLoss);
    EXPECT_TRUE(tree.empty());
  }
}

TEST(RepoTreeTest, AFileWithoutChecksumIsRefused) {
  RepoTree tree;
  for (const std::string& oid : {std::string(), std::string("../../x"), std::string(40, 'G')}) {
    EXPECT_THAT(add_tree_page(page("a", oid), tree).error().message, HasSubstr("no checksum"));
  }
}

TEST(RepoTreeTest, WhatIsNoPageIsRefused) {
  RepoTree tree;
  for (const char* const text : {"", "<html>", "{}", R"([{"type":"file"}])", "[1]"}) {
    EXPECT_FALSE(add_tree_page(text, tree)) << text;
  }
}

TEST(RepoTreeTest, TheCachesTextHoldsAll) {
  const RepoTree tree = {
      {"a", {.num_bytes = 1, .blob_id = kSha1, .lfs_sha256 = {}, .xet_hash = {}}},
      {"b", {.num_bytes = 2, .blob_id = kSha1, .lfs_sha256 = kSha256, .xet_hash = kSha256}}};
  EXPECT_EQ(*decode_tree(encode_tree(tree)), tree);
  for (const char* const text : {"", "[]", R"({"format_version":2,"files":{}})",
                                 R"({"format_version":1,"files":{"a":{"size":1}}})"}) {
    EXPECT_FALSE(decode_tree(text)) << text;
  }
}

}  // namespace
}  // namespace lockstep::runtime

#include "runtime/common/hub_reference.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace lockstep::common {
namespace {

using testing::HasSubstr;

constexpr const char* kCommit = "0123456789abcdef0123456789abcdef01234567";

TEST(HubReferenceTest, HasRepositoryRevisionAndPath) {
  const auto reads = [](const std::string& text, HubKind kind, const HubReference& expected) {
    const Result<HubReference> reference = parse_hub_reference(text, kind);
    ASSERT_TRUE(reference) << text << ": " << reference.error().message;
    EXPECT_EQ(*reference, expected) << text;
  };
  reads("hf://org/name", HubKind::kModel, {HubKind::kModel, "org/name", "main", ""});
  reads("hf://org/name/", HubKind::kModel, {HubKind::kModel, "org/name", "main", ""});
  reads("hf://org/na.me-1_b@v2", HubKind::kModel, {HubKind::kModel, "org/na.me-1_b", "v2", ""});
  reads(std::string("hf://org/name@").append(kCommit).append("/sub/folder"), HubKind::kModel,
        {HubKind::kModel, "org/name", kCommit, "sub/folder"});
  reads("hf://org/name@refs/pr/7", HubKind::kModel, {HubKind::kModel, "org/name", "refs/pr/7", ""});
  reads("hf://org/name@refs%2Fpr%2F7/sub", HubKind::kModel,
        {HubKind::kModel, "org/name", "refs/pr/7", "sub"});
  reads("hf://org/name/data/*.jsonl", HubKind::kDataset,
        {HubKind::kDataset, "org/name", "main", "data/*.jsonl"});
  reads("hf://datasets/org/name@v1/a b.jsonl", HubKind::kDataset,
        {HubKind::kDataset, "org/name", "v1", "a b.jsonl"});
}

TEST(HubReferenceTest, WhatIsNoneIsRefusedWithTheForm) {
  for (const char* const text :
       {"hf://", "hf://name", "hf://org/", "hf:///name", "hf://org/name@", "hf://org/na me",
        "hf://org/name//x", "hf://org/name/../other", "hf://org/..", "hf://-org/name",
        "hf://org/name@a..b", "hf://org/name/a\nb", "hf://org/name@/x"}) {
    const Result<HubReference> reference = parse_hub_reference(text, HubKind::kModel);
    ASSERT_FALSE(reference) << text;
    EXPECT_THAT(reference.error().message, HasSubstr("is no reference to the hub")) << text;
    EXPECT_THAT(reference.error().hint, HasSubstr("hf://ORG/NAME[@REVISION][/PATH]"));
  }
}

TEST(HubReferenceTest, AModelIsNoDataSet) {
  EXPECT_THAT(parse_hub_reference("hf://datasets/org/name", HubKind::kModel).error().message,
              HasSubstr("names datasets/..."));
  EXPECT_THAT(parse_hub_reference("hf://spaces/org/name", HubKind::kDataset).error().message,
              HasSubstr("names spaces/..."));
}

TEST(HubReferenceTest, RepositoriesHaveOneSpelling) {
  const auto spelled = [](const std::string& text, HubKind kind) {
    return repository_name(parse_hub_reference(text, kind).value());
  };
  EXPECT_EQ(spelled("hf://org/name/sub", HubKind::kModel), "hf://org/name@main");
  EXPECT_EQ(spelled("hf://org/name@main", HubKind::kDataset), "hf://datasets/org/name@main");
  EXPECT_EQ(spelled("hf://datasets/org/name/x.jsonl", HubKind::kDataset),
            "hf://datasets/org/name@main");
}

TEST(HubReferenceTest, OnlyAWholeHashIsACommit) {
  EXPECT_TRUE(is_commit(kCommit));
  EXPECT_FALSE(is_commit(std::string(kCommit).substr(1)));
  EXPECT_FALSE(is_commit("main"));
  EXPECT_FALSE(is_commit(std::string(40, 'g')));
}

}  // namespace
}  // namespace lockstep::common

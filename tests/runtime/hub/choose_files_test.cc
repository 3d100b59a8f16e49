#include "runtime/hub/choose_files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runtime/data/path_expansion.h"
#include "tests/runtime/data/temp_folder.h"

namespace lockstep::runtime {
namespace {

using common::ErrorCode;
using testing::ElementsAre;
using testing::HasSubstr;
using Format = common::DataConfig::Format;

RepoTree tree_of(const std::vector<std::string>& paths) {
  RepoTree tree;
  for (const std::string& path : paths) tree[path] = {};
  return tree;
}

TEST(ChooseFilesTest, AModelNeedsConfigurationTokensAndSafetensorsOnly) {
  const RepoTree tree = tree_of({".gitattributes", "LICENSE", "README.md", "config.json",
                                 "model.safetensors", "pytorch_model.bin", "tf_model.h5",
                                 "tokenizer.json", "tokenizer_config.json", "training_args.bin"});
  EXPECT_THAT(
      *choose_model_files(tree, "", true),
      ElementsAre("config.json", "tokenizer.json", "tokenizer_config.json", "model.safetensors"));
  EXPECT_THAT(*choose_model_files(tree, "", false),
              ElementsAre("config.json", "tokenizer.json", "tokenizer_config.json"));
}

TEST(ChooseFilesTest, ATokenizerIsAFolderOrAFileAndNeedsNoModel) {
  const RepoTree tree = tree_of({"README.md", "chat_template.jinja", "sub/merges.txt",
                                 "sub/vocab.json", "tokenizer.json", "tokenizer_config.json"});
  EXPECT_THAT(*choose_tokenizer_files(tree, ""),
              ElementsAre("tokenizer.json", "tokenizer_config.json", "chat_template.jinja"));
  EXPECT_THAT(*choose_tokenizer_files(tree, "sub"),
              ElementsAre("sub/vocab.json", "sub/merges.txt"));
  EXPECT_THAT(*choose_tokenizer_files(tree, "tokenizer.json"), ElementsAre("tokenizer.json"));
  const auto nothing = choose_tokenizer_files(tree, "other");
  ASSERT_FALSE(nothing);
  EXPECT_EQ(nothing.error().code, ErrorCode::kNotFound);
  EXPECT_THAT(nothing.error().message, HasSubstr("has no other/tokenizer.json"));
}

TEST(ChooseFilesTest, ShardsAreThoseOfTheIndex) {
  const std::string index = "sub/model.safetensors.index.json";
  const RepoTree tree = tree_of({"sub/config.json", index, "sub/a.safetensors", "sub/b.safetensors",
                                 "sub/other.safetensors"});
  const std::vector<std::string> first = *choose_model_files(tree, "sub", true);
  EXPECT_THAT(first, ElementsAre("sub/config.json", index));
  EXPECT_EQ(find_index(first), index);
  EXPECT_THAT(*choose_shards(tree, "sub",
                             R"({"weight_map":{"x":"b.safetensors","y":"a.safetensors",
                                 "z":"b.safetensors"}})"),
              ElementsAre("sub/a.safetensors", "sub/b.safetensors"));
  for (const char* const text :
       {"", "[]", R"({"weight_map":{}})", R"({"weight_map":{"x":"../c.safetensors"}})",
        R"({"weight_map":{"x":7}})"}) {
    const auto shards = choose_shards(tree, "sub", text);
    ASSERT_FALSE(shards) << text;
    EXPECT_EQ(shards.error().code, ErrorCode::kDataLoss);
  }
}

TEST(ChooseFilesTest, PicklesAreRefusedByName) {
  const auto chosen = choose_model_files(tree_of({"config.json", "pytorch_model.bin"}), "", true);
  ASSERT_FALSE(chosen);
  EXPECT_EQ(chosen.error().code, ErrorCode::kNotFound);
  EXPECT_THAT(chosen.error().hint, HasSubstr("pytorch_model.bin is not fetched"));
}

TEST(ChooseFilesTest, AModelInAFolderIsHintedAt) {
  const auto chosen = choose_model_files(tree_of({"fp32/config.json"}), "", true);
  ASSERT_FALSE(chosen);
  EXPECT_THAT(chosen.error().hint, HasSubstr("there is one in fp32"));
}

// What is chosen, from a repository of `paths`; the reason if nothing is.
std::vector<std::string> chosen(const std::vector<std::string>& paths, const std::string& path,
                                DataPart part = DataPart::kTrain, Format format = Format::kAuto) {
  const auto choice = choose_data_files(tree_of(paths), path, part, format);
  if (!choice) return {choice.error().message};
  // The pattern finds exactly these.
  const TempFolder folder;
  for (const std::string& each : paths) write_text(folder / each, "text");
  const auto found = expand_paths(folder / choice->pattern, BinaryFiles::kTake);
  std::vector<std::string> expanded;
  for (const std::string& file : found ? found->files : std::vector<std::string>()) {
    expanded.push_back(file.substr(folder.path().size() + 1));
  }
  EXPECT_EQ(expanded, choice->files) << choice->pattern;
  return choice->files;
}

TEST(ChooseDataTest, APathMeansWhatItSays) {
  const std::vector<std::string> paths = {"a/x.jsonl", "a/y.jsonl", "b/x.jsonl", "README.md"};
  EXPECT_THAT(chosen(paths, "a/x.jsonl"), ElementsAre("a/x.jsonl"));
  EXPECT_THAT(chosen(paths, "a/*.jsonl"), ElementsAre("a/x.jsonl", "a/y.jsonl"));
  EXPECT_THAT(chosen(paths, "{a,b}/x.jsonl"), ElementsAre("a/x.jsonl", "b/x.jsonl"));
  EXPECT_THAT(chosen(paths, "[ab]"), ElementsAre("a/x.jsonl", "a/y.jsonl", "b/x.jsonl"));
  EXPECT_THAT(chosen(paths, "c/*").front(),
              HasSubstr("nothing that is trained on is named c/* in the repository: it holds "
                        "README.md, a/x.jsonl"));
}

TEST(ChooseDataTest, AFolderMeansItsFilesOfOneKind) {
  const std::vector<std::string> paths = {".gitattributes", "README.md",  "a/.hidden/x.jsonl",
                                          "a/x.jsonl",      "a/y.ndjson", "b/notes.txt",
                                          "c/x.tokens"};
  EXPECT_THAT(chosen(paths, ""), ElementsAre("a/x.jsonl", "a/y.ndjson"));
  EXPECT_THAT(chosen(paths, "b"), ElementsAre("b/notes.txt"));
  EXPECT_THAT(chosen(paths, "", DataPart::kTrain, Format::kText), ElementsAre("b/notes.txt"));
  EXPECT_THAT(chosen(paths, "", DataPart::kTrain, Format::kTokens), ElementsAre("c/x.tokens"));
  EXPECT_THAT(chosen({"data/x.arrow"}, "").front(), HasSubstr("it holds data/x.arrow"));
  EXPECT_THAT(chosen({"data/x.csv", "data/x.parquet", "dataset_infos.json"}, ""),
              ElementsAre("data/x.parquet"));
  EXPECT_THAT(chosen({"dataset_infos.json", "x.json"}, ""), ElementsAre("x.json"));
  EXPECT_THAT(chosen({"a,b.jsonl"}, "").front(), HasSubstr("has characters of a pattern"));
}

TEST(ChooseDataTest, NamesTellTheParts) {
  const std::vector<std::string> paths = {"data/test-0.jsonl", "data/train-00000.jsonl",
                                          "data/train-00001.jsonl", "data/validation.jsonl"};
  EXPECT_THAT(chosen(paths, ""), ElementsAre("data/train-00000.jsonl", "data/train-00001.jsonl"));
  EXPECT_THAT(chosen(paths, "data", DataPart::kValidation), ElementsAre("data/validation.jsonl"));
  EXPECT_THAT(chosen({"x_eval.jsonl", "x.jsonl"}, ""), ElementsAre("x.jsonl"));
  EXPECT_THAT(chosen({"x_eval.jsonl", "x.jsonl"}, "", DataPart::kValidation),
              ElementsAre("x_eval.jsonl"));
  EXPECT_THAT(chosen({"trainers.jsonl", "contest.jsonl"}, ""),
              ElementsAre("contest.jsonl", "trainers.jsonl"));
  EXPECT_THAT(chosen({"x.jsonl"}, "", DataPart::kValidation).front(),
              HasSubstr("in the repository for validation"));
}

}  // namespace
}  // namespace lockstep::runtime

#include "runtime/common/hub_inputs.h"

#include <filesystem>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runtime/common/train_config.h"
#include "tests/runtime/data/temp_folder.h"

namespace lockstep::common {
namespace {

using nlohmann::json;
using runtime::TempFolder;
using runtime::write_text;
using testing::HasSubstr;

json train_from_hub() {
  return {{"model", {{"path", "hf://org/name@v1"}}},
          {"tokenizer", {{"type", "hf"}}},
          {"data",
           {{"train", "hf://org/talks"}, {"validation", "held-out.jsonl"}, {"sequenceLength", 32}}},
          {"batch", {{"globalBatchSize", 8}}},
          {"steps", 10}};
}

constexpr const char* kConfig = R"({"model_type": "llama", "vocab_size": 300, "hidden_size": 64,
  "intermediate_size": 128, "num_hidden_layers": 3, "num_attention_heads": 4,
  "max_position_embeddings": 64})";

class HubInputsTest : public testing::Test {
 protected:
  JobFile load(const json& train) {
    const std::string path = folder_ / "job.json";
    write_text(path, json({{"name", "a"}, {"ranks", 2}, {"train", train}}).dump());
    Result<JobFile> job = load_job_file(path);
    EXPECT_TRUE(job) << (job ? "" : job.error().message);
    return *job;
  }

  TempFolder folder_;
};

TEST_F(HubInputsTest, AreThoseFieldsThatHoldReferences) {
  const std::vector<HubInput> inputs = hub_inputs(train_from_hub());
  ASSERT_EQ(inputs.size(), 2U);
  EXPECT_EQ(inputs[0].field, "model.path");
  EXPECT_EQ(inputs[0].reference, (HubReference{HubKind::kModel, "org/name", "v1", ""}));
  EXPECT_EQ(inputs[1].field, "data.train");
  EXPECT_EQ(inputs[1].text, "hf://org/talks");
  EXPECT_EQ(inputs[1].reference.kind, HubKind::kDataset);
  EXPECT_TRUE(hub_inputs(json()).empty());
  EXPECT_TRUE(hub_inputs({{"data", {{"train", 3}}}, {"model", "hf://org/name"}}).empty());
}

TEST_F(HubInputsTest, AreRefusedInTheFieldThatTheyAreWrongIn) {
  json train = train_from_hub();
  train["data"]["validation"] = "hf://models/org/name";
  train["model"]["path"] = "hf://name";
  const Problems problems = check_train(train, 2, "spec.train");
  ASSERT_EQ(problems.size(), 2U);
  EXPECT_EQ(problems[0].path, "spec.train.model.path");
  EXPECT_THAT(problems[0].hint, HasSubstr("hf://ORG/NAME[@REVISION][/PATH]"));
  EXPECT_EQ(problems[1].path, "spec.train.data.validation");
}

// What a rank knows before it has fetched anything, and after.
TEST_F(HubInputsTest, AJobIsLoadedWithoutItsModelAndCompletedWithIt) {
  const JobFile job = load(train_from_hub());
  EXPECT_EQ(job.train.model_source.path, "hf://org/name@v1");
  EXPECT_TRUE(job.train.model_source.is_pretrained);
  EXPECT_EQ(job.train.model.num_hidden_layers, 0);
  EXPECT_EQ(job.train.batch.num_micro_batches(), 8);

  write_text(folder_ / "config.json", kConfig);
  const std::string here = folder_.path();
  const FieldTexts places = {{"model.path", here}, {"data.train", "/cache/*.jsonl"}};
  const Result<JobFile> known = with_places(job, places);
  ASSERT_TRUE(known) << known.error().message;
  EXPECT_EQ(known->train.model.num_hidden_layers, 3);
  EXPECT_EQ(known->train.model_source.path, here);
  EXPECT_EQ(known->train.tokenizer.path, here);
  EXPECT_EQ(known->train.data.sources.front().path, "/cache/*.jsonl");
  EXPECT_EQ(known->train.data.validation, "held-out.jsonl");
}

// Caches differ from node to node and from attempt to attempt, what was asked for does not.
TEST_F(HubInputsTest, TheTextOfAJobKeepsItsReferences) {
  write_text(folder_ / "config.json", kConfig);
  json epochs = train_from_hub();
  epochs.erase("steps");
  epochs["epochs"] = 2;
  const JobFile job =
      with_places(load(epochs), {{"model.path", folder_.path()}, {"data.train", "/a"}}).value();
  EXPECT_THAT(job.train_json, HasSubstr("hf://org/name@v1"));
  EXPECT_THAT(job.train_json, HasSubstr("hf://org/talks"));
  EXPECT_THAT(job.train_json, testing::Not(HasSubstr(folder_.path())));
  EXPECT_EQ(json::parse(job.train_json).at("model").at("config").at("num_hidden_layers"), 3);
  EXPECT_EQ(with_steps(job.train_json_here(), 7)->model_source.path, folder_.path());
  EXPECT_EQ(with_steps(job.train_json_here(), 7)->data.sources.front().path, "/a");
}

TEST_F(HubInputsTest, EachSourceOfAMixtureMayBeThere) {
  write_text(folder_ / "config.json", kConfig);
  json train = train_from_hub();
  train["data"].erase("train");
  train["data"]["sources"] = {{{"path", "books.txt"}, {"weight", 2}}, {{"path", "hf://org/talks"}}};
  const std::vector<HubInput> inputs = hub_inputs(train);
  ASSERT_EQ(inputs.size(), 2U);
  EXPECT_EQ(inputs[1].field, "data.sources[1].path");
  EXPECT_EQ(inputs[1].reference, (HubReference{HubKind::kDataset, "org/talks", "main", ""}));
  const JobFile job = with_places(load(train), {{"model.path", folder_.path()},
                                                {"data.sources[1].path", "/cache/*.jsonl"}})
                          .value();
  EXPECT_EQ(job.train.data.sources[0].path, "books.txt");
  EXPECT_EQ(job.train.data.sources[1].path, "/cache/*.jsonl");
  EXPECT_EQ(job.train.data.sources[1].weight, 1);
  EXPECT_THAT(job.train_json, HasSubstr("hf://org/talks"));
  EXPECT_THAT(job.train_json, testing::Not(HasSubstr("/cache")));
}

TEST_F(HubInputsTest, AModelThatOtherFieldsExcludeIsRefusedOnceItIsKnown) {
  write_text(folder_ / "config.json", kConfig);
  json train = train_from_hub();
  train["data"]["sequenceLength"] = 128;
  const Result<JobFile> known =
      with_places(load(train), {{"model.path", folder_.path()}, {"data.train", "/a"}});
  ASSERT_FALSE(known);
  EXPECT_EQ(known.error().code, ErrorCode::kInvalidArgument);
  EXPECT_THAT(known.error().message, HasSubstr("max_position_embeddings 64"));
}

TEST_F(HubInputsTest, WithoutTheModelsFilesItsMemoryIsNotKnown) {
  const Result<json> complete = complete_train(train_from_hub(), 2);
  ASSERT_FALSE(complete);
  EXPECT_EQ(complete.error().code, ErrorCode::kNotFound);
  EXPECT_THAT(complete.error().message, HasSubstr("hf://org/name@v1 is on the hub"));
  EXPECT_THAT(complete.error().hint, HasSubstr("lockstep fetch hf://org/name@v1"));
}

}  // namespace
}  // namespace lockstep::common

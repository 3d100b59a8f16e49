// Data, evaluation and the length of a run, as `spec.train` says them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runtime/common/schema.h"
#include "runtime/common/train_config.h"
#include "runtime/common/train_fields.h"

namespace lockstep::common {
namespace {

using nlohmann::json;
using testing::HasSubstr;

json minimal() {
  return json::parse(R"({
    "model": {"config": {"vocab_size": 256, "hidden_size": 64, "intermediate_size": 128,
                         "num_hidden_layers": 2, "num_attention_heads": 4}},
    "data": {"train": "books/*.txt", "sequenceLength": 128},
    "batch": {"globalBatchSize": 8},
    "steps": 100})");
}

TEST(DataFieldsTest, DataAndEvaluationAreDecoded) {
  const DataConfig defaults = decode_train(minimal()).data;
  EXPECT_EQ(defaults.format, DataConfig::Format::kAuto);
  EXPECT_EQ(defaults.text_column, "text");
  EXPECT_EQ(defaults.validation, "");
  EXPECT_EQ(defaults.validation_fraction, 0);
  EXPECT_FALSE(defaults.has_validation());
  EXPECT_TRUE(defaults.packing);
  EXPECT_EQ(defaults.loader_threads, 2);
  EXPECT_EQ(defaults.prefetch_batches, 2);

  json train = minimal();
  train["data"]["format"] = "tokens";
  train["data"]["validation"] = "/data/held-out.tokens";
  train["data"]["columns"]["text"] = "body";
  train["data"]["packing"] = false;
  train["data"]["loaderThreads"] = 0;
  train["data"]["prefetchBatches"] = 7;
  train["evaluation"] = {{"everySteps", 20}, {"earlyStoppingPatience", 3}};
  const TrainConfig config = decode_train(train);
  EXPECT_EQ(config.data.format, DataConfig::Format::kTokens);
  EXPECT_EQ(config.data.validation, "/data/held-out.tokens");
  EXPECT_EQ(config.data.text_column, "body");
  EXPECT_FALSE(config.data.packing);
  EXPECT_EQ(config.data.loader_threads, 0);
  EXPECT_EQ(config.data.prefetch_batches, 7);
  EXPECT_EQ(config.evaluation.every_steps, 20);
  EXPECT_EQ(config.evaluation.early_stopping_patience, 3);
  EXPECT_TRUE(config.data.has_validation());

  train["data"].erase("validation");
  train["data"]["validationFraction"] = 0.05;
  EXPECT_THAT(check_train(train, 1, "t"), testing::IsEmpty()) << "what is held out is evaluated";
  EXPECT_EQ(decode_train(train).data.validation_fraction, 0.05);
  EXPECT_TRUE(decode_train(train).data.has_validation());
}

TEST(DataFieldsTest, AShareIsHeldOutInPlaceOfOtherData) {
  struct Case {
    json fraction;
    std::string validation, said;
  };
  for (const Case& c :
       {Case{0.1, "held-out.jsonl",
             "and validation exclude each other (hold a share of the training data out, or name "
             "other data)"},
        Case{0, "", "must be greater than 0.0, found 0"},
        Case{1, "", "must be less than 1.0, found 1"},
        Case{-0.1, "", "must be greater than 0.0, found -0.1"},
        Case{"10%", "", "must be a number"}}) {
    json train = minimal();
    train["data"]["validationFraction"] = c.fraction;
    if (!c.validation.empty()) train["data"]["validation"] = c.validation;
    const Problems problems = check_train(train, 1, "t");
    ASSERT_EQ(problems.size(), 1U) << c.said;
    EXPECT_EQ(problems[0].path, "t.data.validationFraction");
    EXPECT_THAT(to_string(problems[0], ""), HasSubstr(c.said));
  }
}

TEST(DataFieldsTest, SeveralSourcesAreMixedByWeight) {
  const DataConfig one = decode_train(minimal()).data;
  ASSERT_EQ(one.sources.size(), 1U);
  EXPECT_EQ(one.sources[0].path, "books/*.txt");
  EXPECT_EQ(one.sources[0].field, "data.train");
  json train = minimal();
  train["data"].erase("train");
  train["data"]["sources"] = {{{"path", "web"}, {"weight", 3}}, {{"path", "books"}}};
  EXPECT_THAT(check_train(train, 1, "t"), testing::IsEmpty());
  const DataConfig two = decode_train(train).data;
  ASSERT_EQ(two.sources.size(), 2U);
  EXPECT_EQ(two.sources[0].weight, 3);
  EXPECT_EQ(two.sources[0].field, "data.sources[0].path");
  EXPECT_EQ(two.sources[1].path, "books");
  EXPECT_EQ(two.sources[1].weight, 1);
  EXPECT_EQ(two.sources[1].field, "data.sources[1].path");
}

TEST(DataFieldsTest, SourcesThatMeanNothingAreRefused) {
  struct Case {
    json data;
    std::string path, said;
  };
  const json a = {{"path", "a"}};
  const auto weighted = [](const json& weight) {
    return json{{"sources", {{{"path", "a"}, {"weight", weight}}, {{"path", "b"}}}}};
  };
  for (const Case& c : std::vector<Case>{
           {json::object(), "t.data.train", "is required (or give data.sources"},
           {{{"train", "a"}, {"sources", {a}}}, "t.data.sources", "and train exclude each other"},
           {{{"sources", json::array()}}, "t.data.sources", "must have at least 1 entries"},
           {{{"sources", {json::object()}}}, "t.data.sources[0].path", "is required"},
           {{{"sources", {a, a}}}, "t.data.sources[1].path", "appears twice"},
           {{{"sources", {{{"path", "hf://a"}}}}}, "t.data.sources[0].path", "hf://ORG/NAME"},
           {weighted(0), "t.data.sources[0].weight", "must be greater than 0.0, found 0"},
           {weighted(-1), "t.data.sources[0].weight", "must be greater than 0.0, found -1"},
           {weighted("many"), "t.data.sources[0].weight", "must be a number"},
           {weighted(0.0001), "t.data.sources[0].weight",
            "must be at least a ten-thousandth of the sum of all weights, 1.0001, found 0.0001"},
           {weighted(1000000), "t.data.sources[1].weight", "must be at least a ten-thousandth"}}) {
    json train = minimal();
    train["data"].erase("train");
    train["data"].update(c.data);
    const Problems problems = check_train(train, 1, "t");
    ASSERT_EQ(problems.size(), 1U) << c.said;
    EXPECT_EQ(problems[0].path, c.path);
    EXPECT_THAT(to_string(problems[0], ""), HasSubstr(c.said));
  }
}

// What follows from the steps waits for them: warm-up here is 3 % of 200.
TEST(DataFieldsTest, EpochsBecomeStepsOnceTheDataIsKnown) {
  json train = minimal();
  train.erase("steps");
  train["epochs"] = 1.5;
  EXPECT_THAT(check_train(train, 1, "t"), testing::IsEmpty());
  const json resolved = resolve_train(check_and_default(train_fields(), train, "").value, 1).train;
  const TrainConfig open = decode_train(resolved);
  EXPECT_EQ(open.steps, 0);
  EXPECT_EQ(open.epochs, 1.5);
  const auto known = with_steps(resolved.dump(), 200);
  ASSERT_TRUE(known);
  EXPECT_EQ(known->steps, 200);
  EXPECT_EQ(known->schedule.warmup_steps, 6);
  EXPECT_EQ(known->schedule.decay_steps, 194);
  EXPECT_EQ(with_steps(minimal().dump(), 200)->schedule.warmup_steps, 6);

  train["schedule"]["warmupSteps"] = 300;
  EXPECT_THAT(check_train(train, 1, "t"), testing::IsEmpty());
  const auto too_few = with_steps(train.dump(), 200);
  ASSERT_FALSE(too_few);
  EXPECT_THAT(too_few.error().message, HasSubstr("with 200 steps"));
  EXPECT_THAT(too_few.error().message, HasSubstr("must be at most steps 200, found 300"));
}

}  // namespace
}  // namespace lockstep::common

#include "runtime/common/teacher_model.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/runtime/data/temp_folder.h"

namespace lockstep::common {
namespace {

using nlohmann::json;
using runtime::TempFolder;
using runtime::write_text;
using testing::HasSubstr;

class TeacherModelTest : public testing::Test {
 protected:
  json small_config(int vocab_size, int positions) const {
    return {{"model_type", "llama"},
            {"vocab_size", vocab_size},
            {"hidden_size", 64},
            {"intermediate_size", 128},
            {"num_hidden_layers", 2},
            {"num_attention_heads", 4},
            {"max_position_embeddings", positions}};
  }
  json distill(const std::string& teacher) const {
    return {{"task", "distill"},
            {"model", {{"init", "random"}, {"config", small_config(300, 64)}}},
            {"tokenizer", {{"type", "hf"}, {"path", "/t"}}},
            {"data", {{"train", "chats.jsonl"}, {"sequenceLength", 64}}},
            {"batch", {{"globalBatchSize", 8}}},
            {"distill", {{"teacher", teacher}}},
            {"steps", 10}};
  }
  Result<TrainConfig> decode(const json& teacher_config) const {
    write_text(folder_ / "config.json", teacher_config.dump());
    return decode_with_teacher(distill(folder_.path()));
  }

  TempFolder folder_;
};

TEST_F(TeacherModelTest, IsReadFromItsConfigJson) {
  json large = small_config(300, 128);
  large["num_hidden_layers"] = 5;
  const auto train = decode(large);
  ASSERT_TRUE(train) << train.error().message;
  EXPECT_EQ(train->distill.model.num_hidden_layers, 5);
  EXPECT_EQ(train->model.num_hidden_layers, 2);
}

TEST_F(TeacherModelTest, OfTheHubIsReadOnceItIsHere) {
  const auto train = decode_with_teacher(distill("hf://org/large"));
  ASSERT_TRUE(train) << train.error().message;
  EXPECT_EQ(train->distill.model.vocab_size, 0);
}

TEST_F(TeacherModelTest, ThatDoesNotFitIsRefusedByField) {
  const auto wide = decode(small_config(301, 64));
  ASSERT_FALSE(wide);
  EXPECT_EQ(wide.error().code, ErrorCode::kInvalidArgument);
  EXPECT_THAT(wide.error().message, HasSubstr("train.distill.teacher: "));
  EXPECT_THAT(wide.error().message, HasSubstr("has vocab_size 301, the model that learns has 300"));
  const auto small = decode(small_config(300, 32));
  ASSERT_FALSE(small);
  EXPECT_THAT(small.error().message,
              HasSubstr("max_position_embeddings 32, but train.data.sequenceLength is 64"));
  const auto absent = decode_with_teacher(distill("/nowhere"));
  ASSERT_FALSE(absent);
  EXPECT_EQ(absent.error().code, ErrorCode::kNotFound);
  EXPECT_THAT(absent.error().message, HasSubstr("train.distill.teacher: "));
}

}  // namespace
}  // namespace lockstep::common

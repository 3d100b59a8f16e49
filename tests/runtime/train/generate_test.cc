#include "runtime/train/generate.h"

#include <vector>

#include <gtest/gtest.h>

#include "runtime/train/run_error.h"
#include "tests/runtime/data/temp_folder.h"

namespace lockstep::runtime {
namespace {

TEST(DrawTokenTest, TemperatureZeroTakesTheLikeliest) {
  const std::vector<float> logits = {0, 3, 1};
  EXPECT_EQ(draw_token(logits.data(), 3, 0, 0.99), 1);
}

TEST(DrawTokenTest, DrawsInProportionToTheSoftmax) {
  // Probabilities 1/4, 1/2, 1/4.
  const std::vector<float> logits = {0, 0.69314718F, 0};
  EXPECT_EQ(draw_token(logits.data(), 3, 1, 0.0), 0);
  EXPECT_EQ(draw_token(logits.data(), 3, 1, 0.24), 0);
  EXPECT_EQ(draw_token(logits.data(), 3, 1, 0.26), 1);
  EXPECT_EQ(draw_token(logits.data(), 3, 1, 0.74), 1);
  EXPECT_EQ(draw_token(logits.data(), 3, 1, 0.76), 2);
}

TEST(GenerateTest, AMissingModelIsATypedErrorThatNamesIt) {
  try {
    generate({.model = "/nowhere/model"});
    FAIL() << "did not throw";
  } catch (const RunError& error) {
    EXPECT_EQ(error.failure().code, common::ExitCode::kInputNotFound);
    EXPECT_NE(error.failure().message.find("/nowhere/model"), std::string::npos);
  }
}

TEST(GenerateTest, ATokenizerThatIsNotReadIsNamed) {
  const TempFolder folder;
  write_text(folder / "config.json",
             R"({"model_type": "llama", "vocab_size": 300, "hidden_size": 8, "intermediate_size": 8,
                 "num_hidden_layers": 1, "num_attention_heads": 2})");
  write_text(folder / "tokenizer.model", "");
  try {
    generate({.model = folder.path()});
    FAIL() << "did not throw";
  } catch (const RunError& error) {
    EXPECT_EQ(error.failure().code, common::ExitCode::kInvalidConfig);
    EXPECT_NE(error.failure().message.find("tokenizer.model"), std::string::npos);
    EXPECT_NE(error.failure().hint.find("tokenizer.json"), std::string::npos);
  }
}

}  // namespace
}  // namespace lockstep::runtime

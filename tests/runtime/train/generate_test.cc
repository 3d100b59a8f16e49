#include "runtime/train/generate.h"

#include <filesystem>
#include <sstream>
#include <string>

#include <gtest/gtest.h>

#include "runtime/train/run_error.h"
#include "tests/runtime/data/temp_folder.h"

namespace lockstep::runtime {
namespace {

TEST(GenerateTest, AMissingModelIsATypedErrorThatNamesIt) {
  std::ostringstream out;
  try {
    generate({.model = "/nowhere/model"}, out);
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
  std::ostringstream out;
  try {
    generate({.model = folder.path()}, out);
    FAIL() << "did not throw";
  } catch (const RunError& error) {
    EXPECT_EQ(error.failure().code, common::ExitCode::kInvalidConfig);
    EXPECT_NE(error.failure().message.find("tokenizer.model"), std::string::npos);
    EXPECT_NE(error.failure().hint.find("tokenizer.json"), std::string::npos);
  }
}

TEST(GenerateTest, ARunWithoutAModelIsToldToBeExported) {
  const TempFolder folder;
  std::filesystem::create_directory(folder / "checkpoints");
  std::ostringstream out;
  try {
    generate({.model = folder.path()}, out);
    FAIL() << "did not throw";
  } catch (const RunError& error) {
    EXPECT_EQ(error.failure().code, common::ExitCode::kInputNotFound);
    EXPECT_NE(error.failure().hint.find("lockstep export"), std::string::npos);
  }
}

TEST(GenerateTest, PromptsAreGivenInOneWay) {
  const TempFolder folder;
  write_text(folder / "prompts", "one\n");
  write_text(folder / "none", "");
  std::ostringstream out;
  EXPECT_THROW(generate({.prompt = "one", .prompts = folder / "prompts"}, out), RunError);
  EXPECT_THROW(generate({.prompts = folder / "none"}, out), RunError);
  EXPECT_THROW(generate({.prompts = folder / "absent"}, out), RunError);
}

}  // namespace
}  // namespace lockstep::runtime

// A share held out of the training data: the same as if its rows lay in a file of their own, the
// same on any number of ranks and after an interruption.
#include <filesystem>
#include <fstream>
#include <map>

#include <gmock/gmock.h>

#include "runtime/common/exit_code.h"
#include "runtime/data/held_out.h"
#include "runtime/data/token_file.h"
#include "tests/equivalence/preference_bits.h"

namespace lockstep::equivalence {
namespace {

using common::ExitCode;
using nlohmann::json;
using runtime::DividedSource;
using runtime::Share;
using support::write_text;
using testing::HasSubstr;

constexpr int kRows = 300;
constexpr double kFraction = 0.1;
constexpr int64_t kSeed = 42;  // the default

class HeldOutBitsTest : public PairsTest {
 protected:
  // Rows of tokens have no separators: they are what they are in any file.
  void SetUp() override {
    PairsTest::SetUp();
    std::string rows;
    for (int i = 0; i < kRows; ++i) {
      std::vector<int> ids(static_cast<std::size_t>(5 + i * 37 % 60));
      for (std::size_t at = 0; at < ids.size(); ++at) {
        ids[at] = (i * 31 + static_cast<int>(at) * (1 + i % 7)) % 251;
      }
      rows += json{{"input_ids", ids}}.dump() + "\n";
    }
    write_text(folder_.path("rows.jsonl"), rows);
  }

  json held_out(double fraction = kFraction) const {
    return {{"data", {{"train", folder_.path("rows.jsonl")}, {"validationFraction", fraction}}},
            {"evaluation", {{"everySteps", 3}}}};
  }

  // The rows of `share` of the token file that run `name` made of rows.jsonl.
  std::string rows_of(const std::string& name, Share share) const {
    std::vector<std::string> files;
    for (const auto& entry : std::filesystem::directory_iterator(folder_.path(name + "/tokens"))) {
      if (entry.path().extension() == ".tokens") files.push_back(entry.path().string());
    }
    auto whole =
        std::make_unique<runtime::TokenFiles>(std::move(runtime::TokenFiles::open(files)).value());
    const auto divided =
        std::move(DividedSource::create(std::move(whole), {.fraction = kFraction, .seed = kSeed}))
            .value();
    const auto source = divided->open(share);
    std::string rows;
    for (int64_t i = 0; i < source->num_documents(); ++i) {
      const int64_t begin = source->document_begin(i);
      std::vector<int32_t> tokens(static_cast<std::size_t>(source->document_begin(i + 1) - begin));
      std::vector<int32_t> labels(tokens.size());
      EXPECT_TRUE(source->read(begin, tokens, labels));
      rows += json{{"input_ids", tokens}}.dump() + "\n";
    }
    return rows;
  }
};

TEST_F(HeldOutBitsTest, ItTrainsAndMeasuresAsItsRowsInTwoFilesDo) {
  for (const bool packing : {true, false}) {
    const std::string name = packing ? "packed" : "alone";
    json changes = held_out();
    changes["data"]["packing"] = packing;
    Gang gang(options({.more = changes}, name));
    EXPECT_EQ(gang.wait(), std::vector<int>{0}) << gang.log(0);
    EXPECT_THAT(gang.log(0), HasSubstr("fraction=0.1 held_out=30 of=300"));
    write_text(folder_.path("kept.jsonl"), rows_of(name, Share::kTraining));
    write_text(folder_.path("apart.jsonl"), rows_of(name, Share::kHeldOut));
    changes["data"] = {{"train", folder_.path("kept.jsonl")},
                       {"validation", folder_.path("apart.jsonl")},
                       {"packing", packing}};
    train({.more = changes}, name + "-files");
    expect_same(name + "-files", name);
    EXPECT_THAT(read_curve(folder_.path(name)).back(), HasSubstr("\"validation_loss\": "));
  }
}

TEST_F(HeldOutBitsTest, OnAnyRankCountAndAfterAnInterruption) {
  const json changes = held_out();
  train({.more = changes}, "one");
  train({.ranks = 3, .more = changes}, "ddp");
  expect_same("ddp", "one");
  train({.ranks = 4, .strategy = "zero3", .more = changes}, "zero3");
  expect_same("zero3", "one");
  forget_after_step("zero3", 8);
  train({.ranks = 2, .strategy = "zero2", .more = changes}, "zero3", 1);
  expect_same("zero3", "one");
}

TEST_F(HeldOutBitsTest, PairsStayTogetherAndHaveAReference) {
  json dpo = task("dpo", {{"data", {{"validationFraction", 0.2}}}});
  dpo["data"].erase("validation");
  train(job({"ddp", 0, 1}, dpo), "dpo");
  EXPECT_THAT(read_curve(folder_.path("dpo")).back(),
              HasSubstr("\"validation_reward_accuracy\": "));
  EXPECT_TRUE(std::filesystem::exists(reference_path("dpo", "validation")));
  train(job({"zero3", 0, 4}, dpo), "shared");
  expect_same("shared", "dpo");
}

TEST_F(HeldOutBitsTest, ARunDoesNotGoOnWithAnotherShare) {
  train({.more = held_out()}, "run");
  forget_after_step("run", 8);
  const std::map<std::string, json> others = {
      {"train.data.validationFraction was 0.1 and is 0.2", held_out(0.2)},
      {"train.data.validationFraction was 0.1 and is null",
       {{"data", {{"train", folder_.path("rows.jsonl")}}}}}};
  int attempt = 1;
  for (const auto& [said, changes] : others) {
    GangOptions other = options({.more = changes}, "run", attempt++);
    other.env["LOCKSTEP_OUTPUT_MODE"] = "resume";
    Gang gang(other);
    EXPECT_EQ(gang.wait(), std::vector<int>{static_cast<int>(ExitCode::kInvalidConfig)}) << said;
    EXPECT_THAT(gang.last_words(0)->message, HasSubstr(said));
  }
}

}  // namespace
}  // namespace lockstep::equivalence

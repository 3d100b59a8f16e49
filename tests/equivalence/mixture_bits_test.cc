// Several sources mixed by weight: the bits of one file with the same rows in that order, on any
// number of ranks and after an interruption.
#include <map>

#include <gmock/gmock.h>

#include "runtime/common/exit_code.h"
#include "tests/equivalence/preference_bits.h"

namespace lockstep::equivalence {
namespace {

using common::ExitCode;
using nlohmann::json;
using support::write_text;
using testing::HasSubstr;

class MixtureBitsTest : public PairsTest {
 protected:
  void SetUp() override {
    PairsTest::SetUp();
    write_rows("large.jsonl", 0, 200);
    write_rows("small.jsonl", 1000, 20);
  }

  static json row(int number) {
    std::vector<int> ids(static_cast<std::size_t>(5 + number * 37 % 60));
    for (std::size_t at = 0; at < ids.size(); ++at) {
      ids[at] = (number * 31 + static_cast<int>(at) * (1 + number % 7)) % 251;
    }
    return {{"input_ids", ids}};
  }
  void write_rows(const std::string& name, int first, int count) const {
    std::string rows;
    for (int i = 0; i < count; ++i) rows += row(first + i).dump() + "\n";
    write_text(folder_.path(name), rows);
  }

  // large.jsonl and small.jsonl by these weights.
  json mixed(double large, double small, const json& more = json::object()) const {
    const json sources = {{{"path", folder_.path("large.jsonl")}, {"weight", large}},
                          {{"path", folder_.path("small.jsonl")}, {"weight", small}}};
    json data = {{"train", nullptr}, {"sources", sources}};
    data.update(more);
    return {{"data", data}};
  }
};

// 144 samples by 3 to 1: three of the one, then one of the other, which comes round again.
TEST_F(MixtureBitsTest, TrainsAsItsRowsInOneFileDo) {
  const json plain = {{"packing", false}, {"shuffle", false}};
  Gang gang(options({.more = mixed(3, 1, plain)}, "mixed"));
  EXPECT_EQ(gang.wait(), std::vector<int>{0}) << gang.log(0);
  EXPECT_THAT(gang.log(0), HasSubstr("large.jsonl weight=3 share=0.75 samples=200 passes=0.54"));
  EXPECT_THAT(gang.log(0), HasSubstr("small.jsonl weight=1 share=0.25 samples=20 passes=1.8"));
  std::string rows;
  for (int i = 0; i < 144; ++i) {
    rows += row(i % 4 == 3 ? 1000 + i / 4 % 20 : i / 4 * 3 + i % 4).dump() + "\n";
  }
  write_text(folder_.path("joined.jsonl"), rows);
  json joined = {{"data", plain}};
  joined["data"]["train"] = folder_.path("joined.jsonl");
  train({.more = joined}, "joined");
  expect_same("mixed", "joined");
}

TEST_F(MixtureBitsTest, OnAnyRankCountAndAfterAnInterruption) {
  json changes = mixed(2, 1, {{"validationFraction", 0.3}});
  changes["evaluation"] = {{"everySteps", 3}};
  train({.more = changes}, "one");
  EXPECT_THAT(read_curve(folder_.path("one")).back(), HasSubstr("\"validation_loss\": "));
  train({.ranks = 2, .more = changes}, "ddp");
  expect_same("ddp", "one");
  train({.ranks = 4, .strategy = "zero3", .more = changes}, "zero3");
  expect_same("zero3", "one");
  forget_after_step("zero3", 8);
  train({.ranks = 2, .strategy = "zero2", .more = changes}, "zero3", 1);
  expect_same("zero3", "one");
}

// An epoch is as many samples as all sources have together.
TEST_F(MixtureBitsTest, EpochsCountTheSamplesOfAllSources) {
  json changes = mixed(1, 1, {{"packing", false}});
  changes["epochs"] = 1;
  changes["steps"] = nullptr;
  Gang gang(options({.more = changes}, "epochs"));
  EXPECT_EQ(gang.wait(), std::vector<int>{0}) << gang.log(0);
  EXPECT_THAT(gang.log(0), HasSubstr("epochs=1 steps=18"));  // (200 + 20) / 12
}

TEST_F(MixtureBitsTest, PairsOfSeveralFilesHaveTheirReference) {
  write_pairs("more.jsonl", 9);
  json dpo = task("dpo", {{"data", {{"validationFraction", 0.2}}}});
  dpo["data"].erase("validation");
  dpo["data"]["train"] = nullptr;
  dpo["data"]["sources"] = {{{"path", folder_.path("pairs.jsonl")}, {"weight", 3}},
                            {{"path", folder_.path("more.jsonl")}}};
  train(job({"ddp", 0, 1}, dpo), "dpo");
  train(job({"zero3", 0, 4}, dpo), "shared");
  expect_same("shared", "dpo");
}

TEST_F(MixtureBitsTest, ARunGoesOnWithTheSameSharesOnly) {
  train({.more = mixed(3, 1)}, "run");
  const auto go_on = [&](const json& changes, int attempt) {
    forget_after_step("run", 8);
    GangOptions other = options({.more = changes}, "run", attempt);
    other.env["LOCKSTEP_OUTPUT_MODE"] = "resume";
    return other;
  };
  Gang weights(go_on(mixed(1, 1), 1));
  EXPECT_EQ(weights.wait(), std::vector<int>{static_cast<int>(ExitCode::kInvalidConfig)});
  EXPECT_THAT(weights.last_words(0)->message,
              HasSubstr("train.data.sources was [3,1] and is [1,1]"));
  json other = mixed(3, 1);
  std::swap(other["data"]["sources"][0]["path"], other["data"]["sources"][1]["path"]);
  Gang order(go_on(other, 2));
  EXPECT_EQ(order.wait(), std::vector<int>{static_cast<int>(ExitCode::kInvalidConfig)});
  EXPECT_THAT(order.last_words(0)->message, HasSubstr("train.data holds other data than then"));
  Gang scaled(go_on(mixed(6, 2), 3));
  EXPECT_EQ(scaled.wait(), std::vector<int>{0}) << scaled.log(0);
}

}  // namespace
}  // namespace lockstep::equivalence

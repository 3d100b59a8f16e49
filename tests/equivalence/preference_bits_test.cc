// Learning from pairs of answers: the same bits however ranks share them, and a reference that is
// kept, or made once more, where it should be. All sharings, and adapters, are in
// preference_bits_full_test.
#include "tests/equivalence/preference_bits.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <limits>
#include <set>
#include <sstream>

#include <sys/stat.h>

#include "runtime/common/status_client.h"

namespace lockstep::equivalence {
namespace {

using nlohmann::json;
using support::write_text;
using testing::HasSubstr;
using PreferenceBitsTest = PairsTest;

// Another one once the file was replaced.
ino_t inode_of(const std::string& path) {
  struct stat status = {};
  EXPECT_EQ(::stat(path.c_str(), &status), 0) << path;
  return status.st_ino;
}

TEST_F(PreferenceBitsTest, PairsOnOneRankAndShared) {
  for (const auto& [name, sharing] : std::vector<std::pair<std::string, Sharing>>{
           {"dpo", {"zero3", 0, 2}}, {"orpo", {"zero3", 2, 4}}, {"reward", {"zero3", 0, 4}}}) {
    train(job({"ddp", 0, 1}, task(name)), name);
    const std::string last = read_curve(folder_.path(name)).back();
    EXPECT_THAT(last, HasSubstr("\"validation_reward_accuracy\": "));
    train(job(sharing, task(name)), name + "-shared");
    expect_same(name + "-shared", name);
  }
}

TEST_F(PreferenceBitsTest, ARunThatGoesOnKeepsItsReferenceOrMakesItOnceMore) {
  const json dpo = task("dpo");
  train(job({"ddp", 0, 1}, dpo), "whole");
  train(job({"zero3", 0, 2}, dpo), "run");
  const std::string file = reference_path("run");
  const std::string sound = read_text(file);
  const ino_t first = inode_of(file);
  forget_after_step("run", 2);
  train(job({"zero1", 0, 4}, dpo), "run", 1);
  EXPECT_EQ(inode_of(file), first) << "it was made once more without need";
  expect_same("run", "whole");

  write_text(file, read_text(file).replace(0, 1, "x"));
  std::filesystem::remove(reference_path("run", "validation"));
  const ino_t damaged = inode_of(file);
  forget_after_step("run", 2);
  train(job({"zero1", 0, 4}, dpo), "run", 2);
  EXPECT_NE(inode_of(file), damaged) << "the damaged one was taken";
  EXPECT_TRUE(read_text(file) == sound);
  EXPECT_TRUE(std::filesystem::exists(reference_path("run", "validation")));
  expect_same("run", "whole");
}

TEST_F(PreferenceBitsTest, AnOverwrittenRunHasTheReferenceOfTheModelThatIsThereNow) {
  train(job({"ddp", 0, 1}, {}), "base");
  const json dpo = task(
      "dpo",
      {{"model", {{"path", folder_.path("base/model")}, {"config", nullptr}, {"init", nullptr}}}});
  train(job({"ddp", 0, 1}, dpo), "run");
  const std::string before = read_text(reference_path("run"));
  // Some weights change places: neither the file's size nor its edges tell.
  const std::string weights = weights_path("base");
  std::string bytes = read_text(weights);
  const auto middle = bytes.begin() + static_cast<std::ptrdiff_t>(bytes.size() / 16 * 8);
  ASSERT_GT(bytes.size(), 20000U);
  std::rotate(middle, middle + 400, middle + 4000);
  write_text(weights, bytes);

  GangOptions again = options(job({"ddp", 0, 1}, dpo), "run");
  again.env["LOCKSTEP_OUTPUT_MODE"] = "overwrite";
  EXPECT_EQ(Gang(again).wait(), std::vector<int>{0});
  train(job({"ddp", 0, 1}, dpo), "fresh");
  EXPECT_FALSE(read_text(reference_path("run")) == before);
  EXPECT_TRUE(read_text(reference_path("run")) == read_text(reference_path("fresh")));
  expect_same("run", "fresh");
}

// Makes the embedding of `token` no number.
void poison_token(const std::string& safetensors, int64_t token, int64_t hidden_size) {
  std::string bytes = read_text(safetensors);
  uint64_t header_bytes = 0;
  ASSERT_GT(bytes.size(), sizeof header_bytes);
  std::memcpy(&header_bytes, bytes.data(), sizeof header_bytes);
  const json header = json::parse(bytes.substr(sizeof header_bytes, header_bytes));
  const json& tensor = header.at("model.embed_tokens.weight");
  ASSERT_EQ(tensor.at("dtype"), "F32");
  const auto begin = tensor.at("data_offsets").at(0).get<int64_t>();
  const float nothing = std::numeric_limits<float>::quiet_NaN();
  const auto at = static_cast<std::size_t>(begin + token * hidden_size * 4);
  std::memcpy(bytes.data() + sizeof header_bytes + header_bytes + at, &nothing, sizeof nothing);
  write_text(safetensors, bytes);
}

TEST_F(PreferenceBitsTest, AReferenceThatIsNoNumberNamesTheRow) {
  train(job({"ddp", 0, 1}, {}), "base");
  poison_token(weights_path("base"), '~', 48);
  // Line 1 is no pair, so pair i from 0 stands in line i + 2.
  const auto write_odd = [&](const std::set<int64_t>& odd_pairs) {
    std::istringstream rows(read_text(folder_.path("pairs.jsonl")));
    std::string text = "\n";
    int64_t index = 0;
    for (std::string line; std::getline(rows, line); ++index) {
      json row = json::parse(line);
      if (odd_pairs.contains(index)) row["rejected"] = "ab~cd";
      text += row.dump() + "\n";
    }
    write_text(folder_.path("odd.jsonl"), text);
  };
  const auto tuned = [&](const json& data) {
    json train = task(
        "dpo", {{"model",
                 {{"path", folder_.path("base/model")}, {"config", nullptr}, {"init", nullptr}}}});
    train["data"] = data;
    return train;
  };
  const auto expect_named = [&](const json& data, const std::string& place) {
    std::filesystem::remove_all(folder_.path("odd"));
    Gang gang(options(job({"zero3", 0, 2}, tuned(data)), "odd"));
    EXPECT_EQ(gang.wait().front(), static_cast<int>(common::ExitCode::kNonFinite)) << gang.log(0);
    EXPECT_THAT(
        gang.last_words(0)->message,
        HasSubstr("the log-probability of the rejected answer of " + place + " by the reference"));
  };
  const std::string odd = folder_.path("odd.jsonl");
  write_odd({23, 31});
  expect_named({{"train", odd}}, odd + ":25");
  expect_named({{"train", folder_.path("pairs.jsonl")}, {"validation", odd}}, odd + ":25");
  // Seed 42 holds pair 27 of 40 out, and neither of the others.
  expect_named({{"train", odd}, {"validationFraction", 0.3}}, odd + ":25");
  write_odd({27});
  expect_named({{"train", odd}, {"validationFraction", 0.3}}, odd + ":29");
}

// It neither looks like a stall nor like what comes after it.
TEST_F(PreferenceBitsTest, TheReferenceIsAPhaseThatTellsHowFarItIs) {
  write_pairs("pairs.jsonl", 4000);
  GangOptions run = options(job({"ddp", 0, 1}, task("dpo")), "run");
  const std::string port = folder_.path("port");
  run.env["LOCKSTEP_METRICS_PORT_FILE"] = port;
  Gang gang(run);
  std::vector<std::string> phases;
  std::vector<int64_t> done;
  bool stays = false;  // beyond the phase that it is of
  gang.wait_until([&] {
    const std::string text = read_text(port);
    if (text.empty()) return false;
    const auto seen = common::fetch_status({.host = "127.0.0.1", .port = std::stoi(text)},
                                           std::chrono::seconds(1));
    if (!seen) return false;
    if (phases.empty() || phases.back() != seen->phase) phases.push_back(seen->phase);
    if (seen->phase == "reference" && seen->phase_progress && seen->phase_progress->total == 4000) {
      done.push_back(seen->phase_progress->done);
    }
    stays = stays || (seen->phase != "reference" && seen->phase_progress);
    return seen->step > 0;
  });
  EXPECT_EQ(gang.wait(), std::vector<int>{0}) << gang.log(0);
  EXPECT_FALSE(stays);
  ASSERT_GT(done.size(), 2U);
  EXPECT_TRUE(std::is_sorted(done.begin(), done.end()));
  EXPECT_LT(done.front(), done.back());
  const auto reference = std::find(phases.begin(), phases.end(), "reference");
  ASSERT_NE(reference, phases.end());
  EXPECT_EQ(std::count(reference, phases.end(), "evaluating"), 0) << "before the first step";
  EXPECT_THAT(gang.log(0), HasSubstr("computing the reference"));
}

TEST_F(PreferenceBitsTest, ARowThatIsNoPairIsRefusedByFileLineAndField) {
  expect_refusal(R"({"prompt": "a", "chosen": "b"})",
                 "bad.jsonl:41: has no field \"rejected\"; its fields: prompt, chosen");
}

}  // namespace
}  // namespace lockstep::equivalence

// Runs of real ranks that learn from pairs of answers.
#pragma once

#include <filesystem>
#include <string>

#include <gmock/gmock.h>

#include "runtime/common/exit_code.h"
#include "tests/equivalence/same_bits.h"

namespace lockstep::equivalence {

inline constexpr int kPairs = 40;

class PairsTest : public SameBitsTest {
 protected:
  void SetUp() override {
    SameBitsTest::SetUp();
    nlohmann::json vocabulary = {{"?", 0}};  // a token is a letter
    for (int letter = ' '; letter <= '~'; ++letter) {
      vocabulary[std::string(1, static_cast<char>(letter))] = letter;
    }
    const nlohmann::json split = {{"type", "Split"},
                                  {"pattern", {{"Regex", "."}}},
                                  {"behavior", "Isolated"},
                                  {"invert", false}};
    std::filesystem::create_directories(tokenizer_);
    support::write_text(
        tokenizer_ + "/tokenizer.json",
        nlohmann::json{
            {"version", "1.0"},
            {"added_tokens", nlohmann::json::array()},
            {"pre_tokenizer", split},
            {"model", {{"type", "WordLevel"}, {"unk_token", "?"}, {"vocab", vocabulary}}}}
            .dump());
    write_pairs("pairs.jsonl", kPairs);
    write_pairs("validation.jsonl", 7);
  }

  void write_pairs(const std::string& name, int count) const {
    std::string lines;
    for (int i = 0; i < count; ++i) {
      const auto letters = [i](int factor) {
        return std::string(static_cast<std::size_t>(1 + i * factor % 17),
                           static_cast<char>('a' + i * factor % 26));
      };
      lines += nlohmann::json{{"prompt", "what is " + std::to_string(i * 7919) + "? "},
                              {"chosen", letters(3)},
                              {"rejected", letters(5)}}
                   .dump();
      lines += '\n';
    }
    support::write_text(folder_.path(name), lines);
  }

  nlohmann::json task(const std::string& name,
                      const nlohmann::json& more = nlohmann::json::object()) const {
    nlohmann::json train = {{"task", name},
                            {"tokenizer", {{"type", "hf"}, {"path", tokenizer_}}},
                            {"data",
                             {{"train", folder_.path("pairs.jsonl")},
                              {"validation", folder_.path("validation.jsonl")}}}};
    train.update(more, /*merge_objects=*/true);  // keeps what is null, for to_json()
    return train;
  }

  static TinyJob job(const Sharing& sharing, const nlohmann::json& more,
                     const std::string& precision = "fp32") {
    return {.ranks = sharing.ranks,
            .strategy = sharing.strategy,
            .shard_ranks = sharing.shard_ranks,
            .steps = 4,
            .checkpoint_every = 2,
            .precision = precision,
            .more = more};
  }

  // Expects that ranks refuse the pairs with `row` behind them.
  void expect_refusal(const std::string& row, const std::string& said) const {
    support::write_text(folder_.path("bad.jsonl"),
                        read_text(folder_.path("pairs.jsonl")) + row + "\n");
    std::filesystem::remove_all(folder_.path("refused"));
    const nlohmann::json bad = task("dpo", {{"data", {{"train", folder_.path("bad.jsonl")}}}});
    Gang gang(options(job({"ddp", 0, 2}, bad), "refused"));
    EXPECT_EQ(gang.wait().front(), static_cast<int>(common::ExitCode::kInvalidData));
    EXPECT_THAT(gang.last_words(0)->message, testing::HasSubstr(said));
  }

  std::string reference_path(const std::string& name, const std::string& data = "train") const {
    return folder_.path(name) + "/tokens/reference." + data;
  }

  const std::string tokenizer_ = folder_.path("tokenizer");
};

}  // namespace lockstep::equivalence

// Fine-tuning on conversations: the same bits on any number of ranks and for every layout of the
// same conversations, and one time for templates over all attempts of a run.
#include <filesystem>
#include <numeric>
#include <set>
#include <sstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/paths.h"
#include "tests/support/tiny_job.h"

namespace lockstep::equivalence {
namespace {

using nlohmann::json;
using support::Gang;
using support::GangOptions;
using support::read_curve;
using support::read_text;
using support::TemporaryFolder;
using support::TinyJob;
using support::write_text;
using testing::HasSubstr;

constexpr int kConversations = 60;
constexpr char kTemplate[] =
    "{% for m in messages %}{% if m.role == 'assistant' %}A:{% generation %}{{ m.content }}~"
    "{% endgeneration %}{% else %}U:{{ m.content }}~{% endif %}{% endfor %}";

class SftBitsTest : public testing::Test {
 protected:
  void SetUp() override {
    // A token is a letter.
    json vocabulary = {{"?", 0}};
    for (int letter = ' '; letter <= '~'; ++letter) {
      vocabulary[std::string(1, static_cast<char>(letter))] = letter;
    }
    const json split = {{"type", "Split"},
                        {"pattern", {{"Regex", "."}}},
                        {"behavior", "Isolated"},
                        {"invert", false}};
    std::filesystem::create_directories(tokenizer_);
    write_text(tokenizer_ + "/tokenizer.json",
               json{{"version", "1.0"},
                    {"added_tokens", json::array()},
                    {"pre_tokenizer", split},
                    {"model", {{"type", "WordLevel"}, {"unk_token", "?"}, {"vocab", vocabulary}}}}
                   .dump());
    write_text(tokenizer_ + "/chat_template.jinja", kTemplate);
    std::string lines;
    for (int i = 0; i < kConversations; ++i) {
      lines += json{{"messages", {said("user", asked(i)), said("assistant", answered(i))}}}.dump();
      lines += '\n';
    }
    write_text(folder_.path("chats.jsonl"), lines);
  }

  static json said(const char* role, const std::string& content) {
    return {{"role", role}, {"content", content}};
  }
  static std::string asked(int i) { return "what is " + std::to_string(i * 7919); }
  static std::string answered(int i) {
    return std::string(static_cast<std::size_t>(1 + i % 20), static_cast<char>('a' + i % 26));
  }

  GangOptions options(const TinyJob& job, const json& changes, const std::string& name,
                      int attempt) const {
    TinyJob with_data = job;
    with_data.data = folder_.path("chats.jsonl");
    GangOptions gang{.runtime = support::kRuntimeProgram,
                     .job = to_json(with_data),
                     .folder = folder_.path(name + ".files"),
                     .output = folder_.path(name),
                     .num_ranks = job.ranks,
                     .attempt = attempt};
    json& train = gang.job["train"];
    train["task"] = "sft";
    train["tokenizer"] = {{"type", "hf"}, {"path", tokenizer_}};
    if (!changes.is_null()) train.merge_patch(changes);
    return gang;
  }

  // Returns what rank 0 said.
  std::string train(const TinyJob& job, const json& changes, const std::string& name,
                    int attempt = 0) const {
    Gang gang(options(job, changes, name, attempt));
    EXPECT_EQ(gang.wait(), std::vector<int>(static_cast<std::size_t>(job.ranks), 0)) << gang.log(0);
    return gang.log(0);
  }

  void expect_same(const std::string& name, const std::string& reference) const {
    const std::string weights = read_text(folder_.path(reference) + "/model/model.safetensors");
    ASSERT_FALSE(weights.empty());
    EXPECT_TRUE(read_text(folder_.path(name) + "/model/model.safetensors") == weights)
        << name << ": weights differ from " << reference;
    EXPECT_EQ(read_curve(folder_.path(name)), read_curve(folder_.path(reference)));
  }

  // The labels of every step's global batch.
  std::vector<int64_t> loss_tokens(const std::string& name) const {
    std::vector<int64_t> counts;
    std::istringstream lines(read_text(folder_.path(name) + "/metrics.jsonl"));
    for (std::string line; std::getline(lines, line);) {
      counts.push_back(json::parse(line).at("loss_tokens").get<int64_t>());
    }
    return counts;
  }

  TemporaryFolder folder_;
  const std::string tokenizer_ = folder_.path("tokenizer");
};

// A step has 12 conversations with answers of 2 to 21 labels, its sum over ranks is by index.
TEST_F(SftBitsTest, ConversationsOnAnyRankCountAndStrategy) {
  const std::string log = train({.ranks = 1, .steps = 6}, {}, "reference");
  EXPECT_THAT(log, HasSubstr("what stands in {% generation %}"));
  const std::vector<int64_t> labels = loss_tokens("reference");
  EXPECT_EQ(std::accumulate(labels.begin(), labels.begin() + 5, int64_t{0}), 3 * 20 * 23 / 2)
      << "an epoch is 5 steps: every answer and its end, once";
  EXPECT_GT(std::set(labels.begin(), labels.end()).size(), 1U);
  train({.ranks = 2, .strategy = "zero3", .steps = 6}, {}, "two");
  expect_same("two", "reference");
  train({.ranks = 3, .steps = 6}, {}, "three");
  expect_same("three", "reference");

  const json packed = {{"data", {{"packing", true}}}};
  train({.ranks = 1, .steps = 6}, packed, "packed");
  EXPECT_NE(read_curve(folder_.path("packed")), read_curve(folder_.path("reference")));
  train({.ranks = 2, .strategy = "zero1", .steps = 6}, packed, "packed-two");
  expect_same("packed-two", "packed");
}

TEST_F(SftBitsTest, EveryLayoutOfTheSameConversationsTrainsTheSame) {
  const TinyJob job{.ranks = 1, .steps = 2};
  train(job, {}, "reference");
  std::string shared, instructions, completions;
  for (int i = 0; i < kConversations; ++i) {
    const json human = {{"from", "human"}, {"value", asked(i)}};
    const json gpt = {{"from", "gpt"}, {"value", answered(i)}};
    shared += json{{"conversations", {human, gpt}}}.dump() + "\n";
    instructions += json{{"instruction", asked(i)}, {"input", ""}, {"output", answered(i)}}.dump();
    instructions += '\n';
    completions += json{{"q", "U:" + asked(i) + "~A:"}, {"a", answered(i) + "~"}}.dump() + "\n";
  }
  const std::vector<std::pair<std::string, std::string>> files = {
      {"shared", shared}, {"instructions", instructions}, {"completions", completions}};
  for (const auto& [name, lines] : files) {
    write_text(folder_.path(name + ".jsonl"), lines);
    json changes = {{"data", {{"train", folder_.path(name + ".jsonl")}}}};
    if (name == "completions") {
      changes["data"]["columns"] = {{"prompt", "q"}, {"completion", "a"}};
    }
    train(job, changes, name);
    expect_same(name, "reference");
  }
}

TEST_F(SftBitsTest, ATemplateWithoutMarksLearnsTheSameAnswers) {
  const TinyJob job{.ranks = 1, .steps = 2};
  train(job, {}, "reference");
  write_text(tokenizer_ + "/chat_template.jinja",
             "{% for m in messages %}{% if m.role == 'assistant' %}A:{% else %}U:{% endif %}"
             "{{ m.content }}~{% endfor %}{% if add_generation_prompt %}A:{% endif %}");
  const std::string log = train(job, {}, "unmarked");
  EXPECT_THAT(log, HasSubstr("what follows the template's generation prompt"));
  expect_same("unmarked", "reference");
}

TEST_F(SftBitsTest, RowsThatTeachNothingAreLeftOutAndCounted) {
  const TinyJob job{.ranks = 1, .steps = 2};
  train(job, {}, "reference");
  const std::string chats = read_text(folder_.path("chats.jsonl"));
  const std::string silent = json{{"messages", {said("user", "a")}}}.dump() + "\n";
  write_text(folder_.path("more.jsonl"), chats + silent + silent);
  const std::string log = train(job, {{"data", {{"train", folder_.path("more.jsonl")}}}}, "more");
  EXPECT_THAT(log, HasSubstr("unlearned_skipped=2"));
  expect_same("more", "reference");
  train(job, {{"data", {{"loss", "all"}}}}, "all");
  EXPECT_GT(loss_tokens("all").front(), loss_tokens("reference").front());
}

TEST_F(SftBitsTest, TheTimeOfTemplatesIsOneOverAllAttempts) {
  write_text(tokenizer_ + "/chat_template.jinja",
             std::string("{{ strftime_now('%H%M%S') }}") + kTemplate);
  const TinyJob job{.ranks = 2, .strategy = "zero3", .steps = 2};
  train(job, {}, "timed");
  const std::string told = read_text(folder_.path("timed/tokens/strftime_now"));
  const std::vector<std::string> curve = read_curve(folder_.path("timed"));
  const auto die = [&] { std::filesystem::remove(folder_.path("timed/finished.json")); };
  die();
  train(job, {}, "timed", 1);
  EXPECT_EQ(read_text(folder_.path("timed/tokens/strftime_now")), told);
  EXPECT_EQ(read_curve(folder_.path("timed")), curve);
  // Another time makes other tokens, which the checkpoint does not go on with.
  die();
  write_text(folder_.path("timed/tokens/strftime_now"), "1\n");
  Gang gang(options(job, {}, "timed", 2));
  EXPECT_NE(gang.wait().front(), 0);
  EXPECT_THAT(gang.log(0), HasSubstr("belongs to another run"));
}

}  // namespace
}  // namespace lockstep::equivalence

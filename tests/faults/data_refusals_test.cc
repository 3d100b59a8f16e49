// Data that cannot be trained on is refused with InvalidData and the place of what is wrong, on the
// rank that meets it and at the step that needs it.
#include <cstdlib>
#include <filesystem>

#include <gtest/gtest.h>

#include "tests/support/paths.h"
#include "tests/support/tiny_job.h"

namespace lockstep::faults {
namespace {

using common::ExitCode;
using nlohmann::json;
using support::Gang;
using support::GangOptions;
using support::read_text;
using support::TemporaryFolder;
using support::TinyJob;
using support::write_text;

class DataRefusalsTest : public testing::Test {
 protected:
  // A job on `name` in the test's folder.
  GangOptions job(const std::string& name, const json& changes = json::object(),
                  int ranks = 1) const {
    const TinyJob tiny{.ranks = ranks, .data = folder_.path(name), .steps = 4};
    GangOptions gang{.runtime = support::kRuntimeProgram,
                     .job = to_json(tiny),
                     .folder = folder_.path("files"),
                     .output = folder_.path("output"),
                     .num_ranks = ranks};
    gang.job["train"].merge_patch(changes);
    return gang;
  }

  std::string write(const std::string& name, const std::string& text) const {
    std::filesystem::create_directories(std::filesystem::path(folder_.path(name)).parent_path());
    write_text(folder_.path(name), text);
    return name;
  }
  // Lines enough to train on, and `last`.
  std::string write_lines(const std::string& name, const std::string& last) const {
    std::string lines;
    for (int i = 0; i < 200; ++i) {
      lines += json{{"text", support::tiny_corpus(100)}}.dump() + "\n";
    }
    return write(name, lines + last);
  }
  // Task sft with a tokenizer of two words, which has no chat template.
  json sft_of_words() const {
    json vocabulary = {{"?", 0}, {"a", 1}};
    write("words/tokenizer.json",
          json{{"version", "1.0"},
               {"pre_tokenizer", {{"type", "WhitespaceSplit"}}},
               {"model", {{"type", "WordLevel"}, {"unk_token", "?"}, {"vocab", vocabulary}}}}
              .dump());
    return {{"task", "sft"}, {"tokenizer", {{"type", "hf"}, {"path", folder_.path("words")}}}};
  }
  // Runs the verb as a user does; returns its exit status.
  int tokenize(const std::string& arguments) const {
    const std::string command = std::string(support::kRuntimeProgram) + " tokenize " + arguments +
                                " >" + folder_.path("said") + " 2>&1";
    const int status = std::system(command.c_str());
    return WEXITSTATUS(status);
  }
  std::string said() const { return read_text(folder_.path("said")); }

  static void expect_refusal(const GangOptions& options, ExitCode code, const std::string& text,
                             int64_t step = 0) {
    Gang gang(options);
    EXPECT_EQ(gang.wait().front(), static_cast<int>(code)) << gang.log(0);
    const auto words = gang.last_words(0);
    ASSERT_TRUE(words) << gang.log(0);
    EXPECT_EQ(words->reason, common::reason_of(code));
    EXPECT_EQ(words->step, step) << words->message;
    EXPECT_NE(words->message.find(text), std::string::npos) << words->message;
    EXPECT_FALSE(words->hint.empty()) << words->message;
  }

  TemporaryFolder folder_;
};

TEST_F(DataRefusalsTest, ALineThatIsWrongIsNamedBeforeTheFirstStep) {
  const std::string name = write_lines("bad.jsonl", "{\"text\": 3}\n");
  expect_refusal(job(name), ExitCode::kInvalidData, "bad.jsonl:201: \"text\" is a JSON number");
  GangOptions two = job(name, json::object(), 2);
  Gang gang(two);
  EXPECT_EQ(gang.wait(), (std::vector<int>{static_cast<int>(ExitCode::kInvalidData),
                                           static_cast<int>(ExitCode::kPeerLost)}));
  EXPECT_TRUE(std::filesystem::is_empty(folder_.path("output/tokens"))) << "nothing is left";
}

TEST_F(DataRefusalsTest, AColumnThatIsNotThere) {
  const json body = {{"data", {{"columns", {{"text", "body"}}}}}};
  expect_refusal(job(write_lines("lines.jsonl", ""), body), ExitCode::kInvalidData,
                 "lines.jsonl:1: has no field \"body\"; its fields: text");
}

TEST_F(DataRefusalsTest, ATokenizerThatCannotMakeTheModelsTokens) {
  const std::string lines = write_lines("lines.jsonl", "");
  const json with = {{"tokenizer", {{"type", "hf"}, {"path", folder_.path("words")}}}};
  expect_refusal(job(lines, with), ExitCode::kInputNotFound, "words/tokenizer.json is not there");
  json file = {{"version", "1.0"},
               {"normalizer", {{"type", "Sarcasm"}}},
               {"model", {{"type", "WordLevel"}, {"unk_token", "a"}, {"vocab", {{"a", 256}}}}}};
  write("words/tokenizer.json", file.dump());
  expect_refusal(job(lines, with), ExitCode::kInvalidConfig, "words/tokenizer.json: ");
  file["normalizer"] = nullptr;
  write("words/tokenizer.json", file.dump());
  expect_refusal(job(lines, with, 2), ExitCode::kInvalidConfig,
                 "makes 257 tokens, but model.config.vocab_size is 256");
}

// A template that is missing, rows that are no conversations, columns that are not there.
TEST_F(DataRefusalsTest, ConversationsThatCannotBeLearned) {
  const json sft = sft_of_words();
  std::string lines;
  const json talk = {{{"role", "user"}, {"content", "a"}},
                     {{"role", "assistant"}, {"content", "a"}}};
  for (int i = 0; i < 20; ++i) lines += json{{"messages", talk}}.dump() + "\n";
  const std::string chats = write("chats.jsonl", lines);
  expect_refusal(job(chats, sft, 2), ExitCode::kInvalidConfig, "words has no chat template");
  write("words/chat_template.jinja",
        "{% for m in messages %}{% if m.role == 'system' %}{{ raise_exception('no systems') }}"
        "{% endif %}{% generation %}{{ m.content }} {% endgeneration %}{% endfor %}");
  const std::string system = R"({"messages": [{"role": "system", "content": "a"}]})";
  const std::vector<std::pair<std::string, std::string>> rows = {
      {R"({"messages": [{"role": "user"}]})", "bad.jsonl:21: \"messages\"[0] has no \"content\""},
      {R"({"prompt": "a"})", "bad.jsonl:21: has no field \"messages\"; its fields: prompt"},
      {R"({"messages": ])", "bad.jsonl:21: is not JSON: column 14"},
      {system, "chat_template.jinja: line 1: no systems"},
  };
  for (const auto& [row, said] : rows) {
    expect_refusal(job(write("bad.jsonl", lines + row + "\n"), sft), ExitCode::kInvalidData, said);
  }
  json columns = sft;
  columns["data"]["columns"]["messages"] = "talk";
  expect_refusal(job(chats, columns), ExitCode::kInvalidData,
                 "chats.jsonl:1: has no field \"talk\"; its fields: messages");
  expect_refusal(job(write("odd.jsonl", "{\"body\": 1}\n"), sft), ExitCode::kInvalidData,
                 "odd.jsonl:1: has no field that holds a conversation; its fields: body");
  expect_refusal(job(write_lines("texts.jsonl", ""), sft), ExitCode::kInvalidConfig,
                 "train.data.loss: response, but");
  json silent = {{{"role", "assistant"}, {"content", ""}}};
  expect_refusal(job(write("silent.jsonl", json{{"messages", silent}}.dump() + "\n"), sft),
                 ExitCode::kInvalidData, "none of the 1 conversations has a token to learn");
}

TEST_F(DataRefusalsTest, FilesThatAreNoTokenFiles) {
  const json tokens = {{"data", {{"format", "tokens"}}}};
  const std::string foreign = write("train.bin", std::string(4000, '\1'));
  expect_refusal(job(foreign, tokens), ExitCode::kInvalidData, "train.bin is no token file");
  expect_refusal(job(write("empty.tokens", "x")), ExitCode::kInvalidData, "is no token file");
}

TEST_F(DataRefusalsTest, TokensBeyondTheVocabulary) {
  std::string rows;
  for (int i = 0; i < 40; ++i) {
    rows += json{{"input_ids", std::vector<int>(48, i == 39 ? 256 : 1)}}.dump() + "\n";
  }
  const std::string name = write("rows.jsonl", rows);
  expect_refusal(job(name), ExitCode::kInvalidData, "rows.jsonl:40: input_ids[0] is 256");
  ASSERT_EQ(tokenize(folder_.path(name) + " --output " + folder_.path("rows.tokens")), 0) << said();
  EXPECT_NE(said().find("40 documents, 1920 tokens of 4 bytes"), std::string::npos) << said();
  expect_refusal(job("rows.tokens"), ExitCode::kInvalidData, "holds token 256, but");
}

TEST_F(DataRefusalsTest, ATokenFileThatIsTornOrDamaged) {
  const std::string lines = write_lines("lines.jsonl", "");
  const std::string made = folder_.path("made.tokens");
  ASSERT_EQ(tokenize(folder_.path(lines) + " --output " + made), 0) << said();
  EXPECT_NE(tokenize(folder_.path(lines) + " --output " + made), 0) << "it exists";
  const std::string sound = read_text(made);
  write("torn.tokens", sound.substr(0, sound.size() - 1));
  expect_refusal(job("torn.tokens"), ExitCode::kInvalidData, "torn.tokens: the file has");
}

// Rows of 512 tokens of 4 bytes, unshuffled, 12 a step: the third step is the first to read beyond
// 64 KiB, into a damaged block.
TEST_F(DataRefusalsTest, ADamagedBlockEndsTheStepThatReadsIt) {
  std::string rows;
  for (int i = 0; i < 80; ++i) {
    rows += json{{"input_ids", std::vector<int>(512, i)}}.dump() + "\n";
  }
  const std::string made = folder_.path("long.tokens");
  ASSERT_EQ(tokenize(folder_.path(write("rows.jsonl", rows)) + " --output " + made), 0) << said();
  std::string damaged = read_text(made);
  damaged[4096 + 4 * 17000] ^= 1;
  write("long.tokens", damaged);
  for (const int64_t threads : {0, 2}) {
    const json changes = {
        {"data", {{"shuffle", false}, {"sequenceLength", 512}, {"loaderThreads", threads}}},
        {"model", {{"config", {{"max_position_embeddings", 512}}}}}};
    std::filesystem::remove_all(folder_.path("output"));
    expect_refusal(job("long.tokens", changes), ExitCode::kInvalidData,
                   "checksum of bytes 69632 to 135168 differs", 2);
  }
}

TEST_F(DataRefusalsTest, AStepWithoutAnyLabel) {
  std::string rows;
  for (int i = 0; i < 40; ++i) {
    const std::vector<int> ids(48, 1);
    rows += json{{"input_ids", ids}, {"labels", std::vector<int>(48, -100)}}.dump() + "\n";
  }
  expect_refusal(job(write("rows.jsonl", rows)), ExitCode::kInvalidData,
                 "nothing in the global batch of step 1 has a label");
}

TEST_F(DataRefusalsTest, LessThanAStepOfEpochs) {
  const json changes = {{"epochs", 0.01}, {"steps", nullptr}};
  expect_refusal(job(write_lines("lines.jsonl", ""), changes), ExitCode::kInvalidConfig,
                 "less than one global batch of 12 samples");
}

TEST_F(DataRefusalsTest, ValidationDataThatIsMissing) {
  const json changes = {{"data", {{"validation", folder_.path("nothing.txt")}}}};
  expect_refusal(job(write_lines("lines.jsonl", ""), changes), ExitCode::kInputNotFound,
                 "nothing.txt");
}

TEST_F(DataRefusalsTest, AShareOfOneDocumentLeavesNoneToTrainOn) {
  expect_refusal(job(write("one.txt", support::tiny_corpus(20000)),
                     {{"data", {{"validationFraction", 0.05}}}}),
                 ExitCode::kInvalidData,
                 "train.data.validationFraction: 0.05 of 1 documents is 1, which leaves none");
}

TEST_F(DataRefusalsTest, AShareTooSmallForASample) {
  std::string lines;
  for (int i = 0; i < 400; ++i) lines += json{{"text", "a short one"}}.dump() + "\n";
  const std::string name = write("short.jsonl", lines);
  expect_refusal(job(name, {{"data", {{"validationFraction", 0.005}}}}), ExitCode::kInvalidData,
                 "train.data.validationFraction: of what is held out the corpus has ");
  std::filesystem::remove_all(folder_.path("output"));
  expect_refusal(job(name, {{"data", {{"validationFraction", 0.995}}}}), ExitCode::kInvalidData,
                 "train.data.validationFraction: of what is left to train on the corpus has ");
}

// Of several sources the one that is wrong is named.
TEST_F(DataRefusalsTest, ASourceOfAMixtureThatCannotBeTrainedOn) {
  const std::string lines = write_lines("lines.jsonl", "");
  const auto mixed = [&](const std::string& second, json more = json::object()) {
    more["data"]["train"] = nullptr;
    more["data"]["sources"] = {{{"path", folder_.path(lines)}, {"weight", 3}},
                               {{"path", folder_.path(second)}}};
    std::filesystem::remove_all(folder_.path("output"));
    return job(lines, more);
  };
  const std::string field = "train.data.sources[1].path: ";
  expect_refusal(mixed("nothing/*.txt"), ExitCode::kInputNotFound, field);
  std::filesystem::create_directories(folder_.path("empty"));
  expect_refusal(mixed("empty"), ExitCode::kInvalidData, field + "empty corpus: ");
  expect_refusal(mixed(write("short.txt", "short")), ExitCode::kInvalidData,
                 field + "the corpus has 5 tokens, one sample of sequenceLength 48 needs 49");
  expect_refusal(mixed(write_lines("bad.jsonl", "{}\n")), ExitCode::kInvalidData,
                 "bad.jsonl:201: has no field \"text\"");
  expect_refusal(mixed(write("one.txt", support::tiny_corpus(20000)),
                       {{"data", {{"validationFraction", 0.05}}}}),
                 ExitCode::kInvalidData,
                 field + "train.data.validationFraction: 0.05 of 1 documents is 1");
  const json sft = sft_of_words();
  GangOptions texts = mixed("lines.jsonl", sft);
  texts.job["train"]["data"]["sources"][1]["path"] = folder_.path("empty");
  expect_refusal(texts, ExitCode::kInvalidConfig,
                 "train.data.sources[0].path: train.data.loss: response, but");
}

TEST_F(DataRefusalsTest, DataOfSeveralKinds) {
  write_lines("mixed/a.jsonl", "");
  write("mixed/b.txt", "text");
  expect_refusal(job("mixed"), ExitCode::kInvalidData, "b.txt lies among files of rows");
}

}  // namespace
}  // namespace lockstep::faults

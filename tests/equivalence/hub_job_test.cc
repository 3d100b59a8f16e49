// Jobs that name their model and data by hf://, against a hub on loopback: the bits of the same
// files in a folder, fetched once, by the commit that a checkpoint remembers, and typed ends.
#include <cstdlib>
#include <filesystem>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runtime/common/exit_code.h"
#include "tests/equivalence/same_bits.h"
#include "tests/support/hub_server/hub_server.h"

namespace lockstep::equivalence {
namespace {

using common::ExitCode;
using nlohmann::json;
using support::HubRepo;
using support::HubServer;
using testing::HasSubstr;

class HubJobTest : public SameBitsTest {
 protected:
  // A model and a data set on the hub: the export of a short run, and the corpus.
  void SetUp() override {
    SameBitsTest::SetUp();
    train({.ranks = 1, .steps = 2, .layers = 2}, "base");
    commit_ = server_.put(model("base"));
    server_.put(
        {.api = "datasets",
         .name = "org/talks",
         .files = {{"README.md", "a card"}, {"train.txt", read_text(folder_.path("corpus.txt"))}}});
  }

  // The export of a run, as a repository.
  HubRepo model(const std::string& run) const {
    HubRepo repo{.name = "org/base"};
    for (const auto& file : std::filesystem::directory_iterator(folder_.path(run) + "/model")) {
      repo.files[file.path().filename().string()] = read_text(file.path().string());
    }
    return repo;
  }

  static TinyJob from(const std::string& model, const std::string& data, int ranks = 1) {
    TinyJob job{.ranks = ranks, .strategy = ranks == 1 ? "ddp" : "zero3"};
    job.more = {{"model", {{"path", model}, {"config", nullptr}, {"init", nullptr}}}};
    if (!data.empty()) job.more["data"] = {{"train", data}};
    return job;
  }
  static TinyJob from_hub(int ranks = 1) { return from("hf://org/base", "hf://org/talks", ranks); }
  TinyJob from_folder() const { return from(folder_.path("base") + "/model", ""); }

  // Ranks of one node; `more` is laid over the environment that names the hub.
  GangOptions at_hub(const TinyJob& job, const std::string& name, int attempt = 0,
                     const std::map<std::string, std::string>& more = {}) const {
    GangOptions gang = options(job, name, attempt);
    gang.env = {{"HF_ENDPOINT", server_.url()}, {"HF_HOME", folder_.path("home")},
                {"HF_HUB_CACHE", ""},           {"HF_TOKEN", ""},
                {"HF_HUB_OFFLINE", ""},         {"LOCAL_WORLD_SIZE", std::to_string(job.ranks)}};
    for (const auto& [variable, value] : more) gang.env[variable] = value;
    for (int rank = 0; rank < job.ranks; ++rank) {
      gang.rank_env[rank]["LOCAL_RANK"] = std::to_string(rank);
    }
    return gang;
  }

  static void succeed(const GangOptions& gang_options) {
    Gang gang(gang_options);
    const std::vector<int> codes = gang.wait();
    EXPECT_EQ(codes, std::vector<int>(codes.size(), 0)) << gang.log(0);
  }

  static void expect_end(const GangOptions& gang_options, ExitCode code, const std::string& said,
                         const std::string& hint) {
    Gang gang(gang_options);
    const std::vector<int> codes = gang.wait();
    EXPECT_EQ(codes.front(), static_cast<int>(code)) << gang.log(0);
    for (std::size_t rank = 1; rank < codes.size(); ++rank) {
      EXPECT_EQ(codes[rank], static_cast<int>(ExitCode::kPeerLost))
          << gang.log(static_cast<int>(rank));
    }
    const auto words = gang.last_words(0);
    ASSERT_TRUE(words) << gang.log(0);
    EXPECT_EQ(words->reason, common::reason_of(code));
    EXPECT_THAT(words->message, HasSubstr(said));
    EXPECT_THAT(words->hint, HasSubstr(hint));
  }

  json manifest(const std::string& name, int64_t step) const {
    return json::parse(read_text(folder_.path(name) + "/checkpoints/step-" + std::to_string(step) +
                                 "/manifest.json"))
        .at("manifest");
  }

  HubServer server_;
  std::string commit_;
};

TEST_F(HubJobTest, EndsWithTheBitsOfTheSameFilesInAFolderAndFetchesThemOnce) {
  train(from_folder(), "folder");
  succeed(at_hub(from_hub(3), "hub"));
  expect_same("hub", "folder");
  EXPECT_EQ(server_.count("/revision/"), 2);
  EXPECT_EQ(server_.count("/tree/"), 2);
  EXPECT_EQ(server_.count("/resolve/"), 3);  // config.json, model.safetensors, train.txt

  const json recorded = manifest("hub", 12);
  EXPECT_EQ(recorded.at("hubCommits").at("hf://org/base@main"), commit_);
  EXPECT_THAT(recorded.at("train").get<std::string>(), HasSubstr("hf://org/talks"));

  succeed(at_hub(from_hub(2), "again"));
  expect_same("again", "folder");
  EXPECT_EQ(server_.count("/resolve/"), 3);  // the cache has them
}

TEST_F(HubJobTest, EveryNodeFetchesIntoItsOwnCacheAndOneAsksForTheCommits) {
  GangOptions nodes = at_hub(from_hub(2), "nodes");
  for (int rank = 0; rank < 2; ++rank) {
    nodes.rank_env[rank] = {{"LOCAL_RANK", "0"},
                            {"LOCAL_WORLD_SIZE", "1"},
                            {"HF_HOME", folder_.path("home-" + std::to_string(rank))}};
  }
  succeed(nodes);
  EXPECT_EQ(server_.count("/revision/"), 2);
  EXPECT_EQ(server_.count("/resolve/"), 6);
}

TEST_F(HubJobTest, AResumeKeepsTheCommitThoughTheBranchHasMoved) {
  train(from_folder(), "reference");
  succeed(at_hub(from_hub(2), "stopped"));
  forget_after_step("stopped", 8);
  train({.ranks = 1, .steps = 3, .layers = 2}, "other");  // other weights of the same shapes
  server_.put(model("other"));
  const int asked = server_.count("/revision/");
  succeed(at_hub(from_hub(2), "stopped", 1));
  expect_same("stopped", "reference");
  EXPECT_EQ(server_.count("/revision/"), asked);

  succeed(at_hub(from_hub(), "anew"));
  EXPECT_NE(read_text(weights_path("anew")), read_text(weights_path("reference")));
  EXPECT_EQ(server_.count("/revision/"), asked + 2);
}

TEST_F(HubJobTest, OfflineTheCacheIsEnoughAndWhatItLacksIsNamed) {
  const std::map<std::string, std::string> offline = {{"HF_HUB_OFFLINE", "1"}};
  expect_end(at_hub(from_hub(), "empty", 0, offline), ExitCode::kInputNotFound,
             "train.model.path: HF_HUB_OFFLINE is set", "fetch it once with a network");
  EXPECT_TRUE(server_.requests().empty());
  succeed(at_hub(from_hub(), "online"));
  const std::size_t asked = server_.requests().size();
  succeed(at_hub(from_hub(), "offline", 0, offline));
  expect_same("offline", "online");
  EXPECT_EQ(server_.requests().size(), asked);
}

TEST_F(HubJobTest, WhatMayNotBeReadIsNotTriedAgain) {
  HubRepo gated = model("base");
  gated.name = "org/gated";
  gated.is_gated = true;
  server_.put(gated);
  expect_end(at_hub(from("hf://org/gated", "", 2), "gated"), ExitCode::kInputNotFound,
             "train.model.path: hf://org/gated@main is gated",
             "accept the licence on " + server_.url() + "/org/gated");
  expect_end(at_hub(from("hf://org/absent", ""), "absent"), ExitCode::kInputNotFound,
             "hf://org/absent@main is not on", "check the name");
  expect_end(at_hub(from("hf://org/base", "hf://org/talks/*.jsonl"), "pattern"),
             ExitCode::kInputNotFound, "train.data.train", "name the files");
}

TEST_F(HubJobTest, AHubThatCannotBeReachedMayBeTriedAgain) {
  server_.add_fault({.target = "/revision/", .status = 503, .headers = "Retry-After: 4000\r\n"});
  expect_end(at_hub(from_hub(2), "trouble"), ExitCode::kInputUnavailable, "answers HTTP 503",
             "try again later");
  EXPECT_TRUE(common::find_exit_code(static_cast<int>(ExitCode::kInputUnavailable))->retryable);
  succeed(at_hub(from_hub(2), "trouble", 1));
}

TEST_F(HubJobTest, ABrokenDownloadGoesOn) {
  train(from_folder(), "folder");
  const std::string weights = HubServer::sha256_of(read_text(weights_path("base")));
  server_.add_fault({.target = weights, .cut_after = 5000});
  succeed(at_hub(from_hub(2), "cut"));
  expect_same("cut", "folder");
  std::vector<std::string> ranges;
  for (const support::HubRequest& request : server_.requests()) {
    const auto range = request.headers.find("range");
    if (request.to_content_host)
      ranges.push_back(range == request.headers.end() ? "" : range->second);
  }
  EXPECT_EQ(ranges, (std::vector<std::string>{"", "bytes=5000-"}));
}

// Half of the samples from the hub, half of the same text in a folder.
TEST_F(HubJobTest, SourcesOfAMixtureMayBeThere) {
  const auto mixed = [&](const std::string& first, int ranks) {
    TinyJob job = from(folder_.path("base") + "/model", "", ranks);
    job.more["data"] = {{"train", nullptr},
                        {"sources", {{{"path", first}}, {{"path", folder_.path("corpus.txt")}}}}};
    return job;
  };
  support::write_text(folder_.path("talks.txt"), read_text(folder_.path("corpus.txt")));
  train(mixed(folder_.path("talks.txt"), 1), "folders");
  succeed(at_hub(mixed("hf://org/talks", 2), "mixed"));
  expect_same("mixed", "folders");
  EXPECT_TRUE(manifest("mixed", 12).at("hubCommits").contains("hf://datasets/org/talks@main"));
}

// The base with a tokenizer of letters and a template, so that one can talk with it.
TEST_F(HubJobTest, GenerateAndChatTakeAModelThatIsThere) {
  HubRepo talker = model("base");
  talker.name = "org/talker";
  json vocabulary = {{"?", 0}};
  for (char letter = 'a'; letter <= 'z'; ++letter) vocabulary[std::string(1, letter)] = letter;
  const json split = {{"type", "Split"},
                      {"pattern", {{"Regex", "."}}},
                      {"behavior", "Isolated"},
                      {"invert", false}};
  talker.files["tokenizer.json"] =
      json{{"version", "1.0"},
           {"added_tokens", json::array()},
           {"pre_tokenizer", split},
           {"model", {{"type", "WordLevel"}, {"unk_token", "?"}, {"vocab", vocabulary}}}}
          .dump();
  talker.files["chat_template.jinja"] = "{% for m in messages %}{{ m.content }}{% endfor %}";
  server_.put(talker);
  const std::string folder = folder_.path("talker");
  std::filesystem::create_directories(folder);
  for (const auto& [name, text] : talker.files) support::write_text(folder + "/" + name, text);

  const std::string hub = "HF_ENDPOINT=" + server_.url() + " HF_HUB_CACHE=" + folder_.path("home") +
                          " HF_TOKEN= HF_HUB_OFFLINE= ";
  const auto say = [&](const std::string& command, const std::string& env = "") {
    const std::string said = folder_.path("said");
    const std::string line =
        env + support::kRuntimeProgram + " " + command + " > " + said + " 2> " + said + ".errors";
    EXPECT_EQ(std::system(line.c_str()), 0) << command << ": " << read_text(said + ".errors");
    return read_text(said);
  };
  const std::string prompt = " --prompt step --temperature 0 --tokens 12";
  const std::string text = say("generate --model hf://org/talker" + prompt, hub);
  EXPECT_THAT(text, testing::Not(testing::IsEmpty()));
  EXPECT_EQ(text, say("generate --model " + folder + prompt));
  const int fetched = server_.count("/resolve/");
  support::write_text(folder_.path("lines"), "rank\n");
  const std::string talk = " --temperature 0 --tokens 8 < " + folder_.path("lines");
  EXPECT_EQ(say("chat hf://org/talker" + talk, hub), say("chat " + folder + talk));
  EXPECT_EQ(server_.count("/resolve/"), fetched) << "the cache has them";
  const std::string absent = hub + support::kRuntimeProgram +
                             " generate --model hf://org/absent > " + folder_.path("said") +
                             " 2>&1";
  EXPECT_EQ(WEXITSTATUS(std::system(absent.c_str())), static_cast<int>(ExitCode::kInputNotFound));
  EXPECT_THAT(read_text(folder_.path("said")), HasSubstr("hf://org/absent@main is not on"));
}

}  // namespace
}  // namespace lockstep::equivalence

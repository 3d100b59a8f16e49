#include "runtime/hub/fetch.h"

#include "tests/runtime/hub/hub_fixture.h"

namespace lockstep::runtime {
namespace {

namespace fs = std::filesystem;
using common::ErrorCode;
using common::Result;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

using FetchTest = HubTest;

TEST_F(FetchTest, AModelComesWithWhatItNeedsAndNoPickle) {
  const Result<Fetched> fetched = fetch(session());
  ASSERT_TRUE(fetched) << fetched.error().message;
  EXPECT_EQ(fetched->num_files, 3);
  EXPECT_TRUE(fetched->is_known_whole);
  for (const char* const name : {"config.json", kWeights, "tokenizer.json"}) {
    EXPECT_EQ(read_text(fetched->place + "/" + name), model().files.at(name)) << name;
  }
  EXPECT_FALSE(fs::exists(fetched->place + "/pytorch_model.bin"));
  EXPECT_FALSE(fs::exists(fetched->place + "/README.md"));
  EXPECT_EQ(progress_.bytes_come, progress_.bytes_wanted);
  EXPECT_THAT(pauses_, IsEmpty());
}

TEST_F(FetchTest, TheCacheIsLaidOutAsHuggingFaceHubsIs) {
  ASSERT_TRUE(fetch(session()));
  const std::string repo = folder_ / "hub/models--org--tiny";
  EXPECT_EQ(read_text(repo + "/refs/main"), commit_);
  EXPECT_EQ(fs::read_symlink(repo + "/snapshots/" + commit_ + "/" + kWeights),
            "../../blobs/" + fs::path(blob()).filename().string());
  EXPECT_EQ(fs::read_symlink(repo + "/snapshots/" + commit_ + "/config.json"),
            "../../blobs/" + support::HubServer::git_sha1_of(model().files.at("config.json")));
  EXPECT_TRUE(fs::exists(repo + "/trees/" + commit_ + ".json"));
  EXPECT_TRUE(fs::exists(folder_ / "hub/.locks/models--org--tiny/" +
                         fs::path(blob()).filename().string() + ".lock"));
  EXPECT_FALSE(fs::exists(partial()));
}

TEST_F(FetchTest, WhatIsThereIsNotFetchedAgain) {
  ASSERT_TRUE(fetch(session()));
  const std::size_t before = server_.requests().size();
  ASSERT_TRUE(fetch(session()));
  EXPECT_EQ(server_.requests().size(), before + 1);  // which commit main is
  const std::string commit_text = "hf://org/tiny@" + commit_;
  ASSERT_TRUE(fetch(session(), commit_text));
  EXPECT_EQ(server_.requests().size(), before + 1);
}

TEST_F(FetchTest, ABranchMovesOnAndSharedContentsStay) {
  ASSERT_TRUE(fetch(session()));
  support::HubRepo next = model();
  next.files["config.json"] = R"({"model_type": "qwen3"})";
  const std::string commit = server_.put(next);
  const Result<Fetched> fetched = fetch(session());
  ASSERT_TRUE(fetched);
  EXPECT_THAT(fetched->place, HasSubstr(commit));
  EXPECT_EQ(read_text(fetched->place + "/config.json"), next.files.at("config.json"));
  EXPECT_EQ(ranges().size(), 1U);  // the weights came once
}

TEST_F(FetchTest, OfflineTheCacheIsEnough) {
  ASSERT_TRUE(fetch(session()));
  const std::size_t before = server_.requests().size();
  const Result<Fetched> fetched = fetch(offline_session());
  ASSERT_TRUE(fetched) << fetched.error().message;
  EXPECT_EQ(read_text(fetched->place + "/" + kWeights), model().files.at(kWeights));
  EXPECT_EQ(server_.requests().size(), before);
}

TEST_F(FetchTest, OfflineWhatIsMissingIsNamed) {
  const Result<Fetched> unknown = fetch(offline_session());
  ASSERT_FALSE(unknown);
  EXPECT_EQ(unknown.error().code, ErrorCode::kNotFound);
  EXPECT_THAT(unknown.error().message, HasSubstr("models--org--tiny/refs/main"));

  const Result<Fetched> nothing = fetch(offline_session(), "hf://org/tiny@" + commit_);
  ASSERT_FALSE(nothing);
  EXPECT_THAT(nothing.error().message, HasSubstr("nothing of hf://org/tiny@"));

  const Result<Fetched> whole = fetch(session());
  ASSERT_TRUE(whole);
  fs::remove(whole->place + "/" + kWeights);
  const Result<Fetched> lacking = fetch(offline_session());
  ASSERT_FALSE(lacking);
  EXPECT_EQ(lacking.error().code, ErrorCode::kNotFound);
  EXPECT_THAT(lacking.error().message, HasSubstr(whole->place + "/" + kWeights));
}

TEST_F(FetchTest, OfflineACommitThatWasNeverListedIsSaidToBePerhapsNotWhole) {
  ASSERT_TRUE(fetch(session()));
  fs::remove_all(folder_ / "hub/models--org--tiny/trees");
  const Result<Fetched> fetched = fetch(offline_session());
  ASSERT_TRUE(fetched) << fetched.error().message;
  EXPECT_FALSE(fetched->is_known_whole);
}

TEST_F(FetchTest, ShardsAreThoseOfTheIndex) {
  server_.put(
      {.name = "org/sharded",
       .files = {{"sub/config.json", "{}"},
                 {"sub/model-1.safetensors", "one"},
                 {"sub/model-2.safetensors", "two"},
                 {"sub/model.safetensors.index.json",
                  R"({"weight_map":{"a":"model-1.safetensors","b":"model-2.safetensors"}})"}}});
  const Result<Fetched> fetched = fetch(session(), "hf://org/sharded/sub");
  ASSERT_TRUE(fetched) << fetched.error().message;
  EXPECT_TRUE(fetched->place.ends_with("/sub"));
  EXPECT_EQ(read_text(fetched->place + "/model-2.safetensors"), "two");
  EXPECT_EQ(fetched->num_files, 4);
}

TEST_F(FetchTest, DataComesAsAPatternOfItsFiles) {
  const std::string commit = server_.put({.api = "datasets",
                                          .name = "org/talks",
                                          .files = {{"README.md", "a card"},
                                                    {"train-0.jsonl", "{}"},
                                                    {"train-1.jsonl", "{}\n"},
                                                    {"test.jsonl", "[]"}}});
  const auto talks =
      common::parse_hub_reference("hf://org/talks", common::HubKind::kDataset).value();
  EXPECT_EQ(*resolve_revision(session(), talks), commit);
  const auto train = fetch_data(session(), talks, commit, DataPart::kTrain,
                                common::DataConfig::Format::kAuto, progress_);
  ASSERT_TRUE(train) << train.error().message;
  const std::string snapshot = folder_ / "hub/datasets--org--talks/snapshots/" + commit;
  EXPECT_EQ(train->place, snapshot + "/{train-0.jsonl,train-1.jsonl}");
  EXPECT_EQ(read_text(snapshot + "/train-1.jsonl"), "{}\n");
  EXPECT_FALSE(fs::exists(snapshot + "/test.jsonl"));
}

TEST_F(FetchTest, ARevisionMayHaveASlash) {
  EXPECT_FALSE(fetch(session(), "hf://org/tiny@refs/pr/1"));
  EXPECT_EQ(server_.count("/revision/refs%2Fpr%2F1"), 1);
}

TEST_F(FetchTest, WhatIsNotOnTheHubIsSaidByItsKind) {
  const auto error = [this](const std::string& text) {
    const Result<Fetched> fetched = fetch(session(), text);
    EXPECT_FALSE(fetched) << text;
    EXPECT_EQ(fetched.error().code, ErrorCode::kNotFound) << text;
    return fetched.error();
  };
  EXPECT_THAT(error("hf://org/none").message,
              HasSubstr("hf://org/none@main is not on " + server_.url() + ", or is private"));
  EXPECT_THAT(error("hf://org/none").hint, HasSubstr("needs HF_TOKEN"));
  EXPECT_THAT(error("hf://org/tiny@v9").message, HasSubstr("no revision v9"));
  EXPECT_THAT(error("hf://org/tiny/sub").message,
              HasSubstr("the repository has no sub/config.json"));
  EXPECT_THAT(pauses_, IsEmpty());
}

TEST_F(FetchTest, AGatedModelSaysWhatToDo) {
  support::HubRepo gated = model();
  gated.name = "org/gated";
  gated.is_gated = true;
  server_.put(gated);
  for (const std::string token : {"", "hf_mine"}) {
    const Result<Fetched> fetched = fetch(session(token), "hf://org/gated");
    ASSERT_FALSE(fetched);
    EXPECT_EQ(fetched.error().code, ErrorCode::kPermissionDenied);
    EXPECT_THAT(fetched.error().message, HasSubstr("hf://org/gated@main is gated"));
    EXPECT_THAT(fetched.error().hint,
                HasSubstr("accept the licence on " + server_.url() + "/org/gated"));
    EXPECT_THAT(fetched.error().hint, HasSubstr("HF_TOKEN"));
  }
}

TEST_F(FetchTest, APrivateModelNeedsItsTokenWhichNoOtherHostSees) {
  support::HubRepo secret = model();
  secret.name = "org/secret";
  secret.token = "hf_right";
  server_.put(secret);
  EXPECT_EQ(fetch(session(), "hf://org/secret").error().code, ErrorCode::kNotFound);
  const Result<Fetched> wrong = fetch(session("hf_wrong"), "hf://org/secret");
  EXPECT_EQ(wrong.error().code, ErrorCode::kPermissionDenied);
  EXPECT_THAT(wrong.error().message, HasSubstr("Invalid credentials"));
  const Result<Fetched> fetched = fetch(session("hf_right"), "hf://org/secret");
  ASSERT_TRUE(fetched) << fetched.error().message;
  int to_content_host = 0;
  for (const support::HubRequest& request : server_.requests()) {
    if (!request.to_content_host) continue;
    ++to_content_host;
    EXPECT_FALSE(request.headers.contains("authorization")) << request.target;
  }
  EXPECT_EQ(to_content_host, 1);
}

TEST_F(FetchTest, WhatIsNoHubIsSaid) {
  server_.add_fault({.target = "/revision/", .status = 200});
  const Result<Fetched> fetched = fetch(session());
  ASSERT_FALSE(fetched);
  EXPECT_THAT(fetched.error().hint, HasSubstr("HF_ENDPOINT"));
}

TEST_F(FetchTest, WithoutANetworkItTriesFiveTimesAndNamesTheWayOut) {
  HubSession lost = session();
  {
    const support::LoopbackListener closed;
    lost.settings.endpoint = closed.url();
  }
  const Result<Fetched> fetched = fetch(lost);
  ASSERT_FALSE(fetched);
  EXPECT_EQ(fetched.error().code, ErrorCode::kUnavailable);
  EXPECT_THAT(fetched.error().hint, HasSubstr("HF_HUB_OFFLINE=1"));
  EXPECT_EQ(pauses_.size(), 4U);
}

TEST_F(FetchTest, AServerInTroubleIsLeftAloneForAsLongAsItAsks) {
  server_.add_fault({.target = "/revision/", .status = 503, .headers = "Retry-After: 40\r\n"});
  server_.add_fault({.target = "/tree/", .status = 429, .headers = "Retry-After: 7\r\n"});
  server_.add_fault({.target = "/contents/", .status = 500});
  ASSERT_TRUE(fetch(session()));
  using std::chrono::seconds;
  EXPECT_THAT(pauses_, ElementsAre(seconds(40), seconds(7), seconds(1)));
}

}  // namespace
}  // namespace lockstep::runtime

#include "runtime/hub/fetch_input.h"

#include "tests/runtime/hub/hub_fixture.h"

namespace lockstep::runtime {
namespace {

using common::ErrorCode;
using common::HubInput;
using common::Result;
using testing::HasSubstr;

class FetchInputTest : public HubTest {
 protected:
  FetchInputTest() {
    talks_ = server_.put({.api = "datasets",
                          .name = "org/talks",
                          .files = {{"train.jsonl", "{}"}, {"test.jsonl", "[]"}}});
    tokens_ = server_.put({.name = "org/tokens", .files = {{"tokenizer.json", "{}"}}});
  }

  static std::vector<HubInput> inputs() {
    return common::hub_inputs(
        {{"model", {{"path", "hf://org/tiny"}}},
         {"tokenizer", {{"path", "hf://org/tokens"}}},
         {"data", {{"train", "hf://org/talks"}, {"validation", "hf://org/talks"}}}});
  }

  std::string talks_, tokens_;
  common::TrainConfig train_{.model_source = {.is_pretrained = true}};
};

TEST_F(FetchInputTest, ACommitIsAskedForOncePerRevision) {
  const Result<HubCommits> commits = find_commits(session(), inputs(), {});
  ASSERT_TRUE(commits) << commits.error().message;
  EXPECT_EQ(*commits, (HubCommits{{"hf://org/tiny@main", commit_},
                                  {"hf://org/tokens@main", tokens_},
                                  {"hf://datasets/org/talks@main", talks_}}));
  EXPECT_EQ(server_.count("/revision/"), 3);
}

TEST_F(FetchInputTest, WhatIsKnownIsNotAskedFor) {
  const std::string then(40, 'a');
  const HubCommits known = {{"hf://org/tiny@main", then}, {"hf://org/else@main", then}};
  const Result<HubCommits> commits = find_commits(session(), inputs(), known);
  ASSERT_TRUE(commits);
  EXPECT_EQ(commits->at("hf://org/tiny@main"), then);
  EXPECT_EQ(commits->size(), 3U);
  EXPECT_EQ(server_.count("/org/tiny/revision/"), 0);
}

TEST_F(FetchInputTest, EveryFieldTakesWhatItIsFor) {
  const HubCommits commits = find_commits(session(), inputs(), {}).value();
  std::vector<std::string> places;
  for (const HubInput& input : inputs()) {
    const Result<Fetched> fetched = fetch_input(
        session(), input, commits.at(repository_name(input.reference)), train_, progress_);
    ASSERT_TRUE(fetched) << fetched.error().message;
    places.push_back(fetched->place);
  }
  EXPECT_EQ(read_text(places[0] + "/" + kWeights), model().files.at(kWeights));
  EXPECT_EQ(read_text(places[1] + "/tokenizer.json"), "{}");
  EXPECT_TRUE(places[2].ends_with(talks_ + "/train.jsonl")) << places[2];
  EXPECT_TRUE(places[3].ends_with(talks_ + "/test.jsonl")) << places[3];
}

TEST_F(FetchInputTest, RandomWeightsAreNotFetched) {
  train_.model_source.is_pretrained = false;
  ASSERT_TRUE(fetch_input(session(), inputs()[0], commit_, train_, progress_));
  EXPECT_EQ(server_.count(kWeights), 0);
}

TEST_F(FetchInputTest, ErrorsNameTheField) {
  const HubInput absent = common::hub_inputs({{"model", {{"path", "hf://org/absent"}}}}).front();
  const Result<HubCommits> commits = find_commits(session(), {absent}, {});
  ASSERT_FALSE(commits);
  EXPECT_EQ(commits.error().code, ErrorCode::kNotFound);
  EXPECT_THAT(commits.error().message, HasSubstr("train.model.path: hf://org/absent@main"));
  const HubInput talks =
      common::hub_inputs({{"data", {{"train", "hf://org/talks/x/*.txt"}}}}).front();
  const Result<Fetched> fetched = fetch_input(session(), talks, talks_, train_, progress_);
  ASSERT_FALSE(fetched);
  EXPECT_THAT(fetched.error().message, HasSubstr("train.data.train: hf://datasets/org/talks@main"));
}

}  // namespace
}  // namespace lockstep::runtime

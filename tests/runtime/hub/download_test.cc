#include "runtime/hub/download.h"

#include "tests/runtime/hub/hub_fixture.h"

namespace lockstep::runtime {
namespace {

namespace fs = std::filesystem;
using common::ErrorCode;
using common::Result;
using testing::ElementsAre;
using testing::HasSubstr;

class DownloadTest : public HubTest {
 protected:
  // The next requests for the weights go wrong like this.
  void add_faults(int count, support::HubFault fault) {
    fault.target = "/contents/" + support::HubServer::sha256_of(model().files.at(kWeights));
    for (int i = 0; i < count; ++i) server_.add_fault(fault);
  }

  void expect_whole(const Result<Fetched>& fetched) const {
    ASSERT_TRUE(fetched) << fetched.error().message;
    EXPECT_EQ(read_text(fetched->place + "/" + kWeights), model().files.at(kWeights));
    EXPECT_FALSE(fs::exists(partial()));
    EXPECT_EQ(progress_.bytes_come, progress_.bytes_wanted);
  }
};

TEST_F(DownloadTest, AConnectionThatIsCutIsGoneOnFromWhereItWas) {
  add_faults(1, {.cut_after = 100000});
  add_faults(1, {.cut_after = 50000});
  expect_whole(fetch(session()));
  EXPECT_THAT(ranges(), ElementsAre("", "bytes=100000-", "bytes=150000-"));
}

TEST_F(DownloadTest, CutsDoNotCountAsLongAsSomethingComes) {
  add_faults(12, {.cut_after = 10000});
  expect_whole(fetch(session()));
  EXPECT_EQ(ranges().size(), 13U);
}

TEST_F(DownloadTest, WhatCameBeforeAKillIsNotFetchedAgain) {
  const std::string weights = model().files.at(kWeights);
  write_text(partial(), weights.substr(0, 70000));
  expect_whole(fetch(session()));
  EXPECT_THAT(ranges(), ElementsAre("bytes=70000-"));
  EXPECT_EQ(progress_.bytes_come, progress_.bytes_wanted);
}

TEST_F(DownloadTest, WhatCameWholeBeforeAKillIsOnlyChecked) {
  write_text(partial(), model().files.at(kWeights));
  expect_whole(fetch(session()));
  EXPECT_TRUE(ranges().empty());
}

TEST_F(DownloadTest, AServerWithoutRangesSendsItAgain) {
  add_faults(1, {.cut_after = 100000});
  add_faults(1, {.ignores_range = true});
  expect_whole(fetch(session()));
}

TEST_F(DownloadTest, APartialFileOfOtherContentsIsFetchedAfresh) {
  write_text(partial(), std::string(70000, 'x'));
  expect_whole(fetch(session()));
  EXPECT_THAT(ranges(), ElementsAre("bytes=70000-", ""));
  write_text(partial(), std::string(1000000, 'x'));  // longer than the file
  fs::remove(blob());
  expect_whole(fetch(session()));
}

TEST_F(DownloadTest, ContentsThatAreChangedOnceAreFetchedAfresh) {
  add_faults(1, {.changes_contents = true});
  expect_whole(fetch(session()));
  EXPECT_EQ(ranges().size(), 2U);
}

TEST_F(DownloadTest, ContentsThatAreChangedTwiceAreRefused) {
  add_faults(2, {.changes_contents = true});
  const Result<Fetched> fetched = fetch(session());
  ASSERT_FALSE(fetched);
  EXPECT_EQ(fetched.error().code, ErrorCode::kDataLoss);
  EXPECT_THAT(fetched.error().message, HasSubstr("model.safetensors of hf://org/tiny@main"));
  EXPECT_FALSE(fs::exists(blob()));
  EXPECT_FALSE(fs::exists(partial()));
}

TEST_F(DownloadTest, SmallFilesAreCheckedToo) {
  const std::string etag = support::HubServer::git_sha1_of(model().files.at("config.json"));
  for (int i = 0; i < 2; ++i) {
    server_.add_fault({.target = "/contents/" + etag, .changes_contents = true});
  }
  const Result<Fetched> fetched = fetch(session());
  ASSERT_FALSE(fetched);
  EXPECT_THAT(fetched.error().message, HasSubstr("config.json"));
}

TEST_F(DownloadTest, ATransferThatKeepsBreakingIsGivenUpAndWhatCameStays) {
  add_faults(1, {.cut_after = 5000});
  add_faults(5, {.cut_after = 0});
  const Result<Fetched> fetched = fetch(session());
  ASSERT_FALSE(fetched);
  EXPECT_EQ(fetched.error().code, ErrorCode::kUnavailable);
  EXPECT_THAT(fetched.error().hint, HasSubstr("the next attempt goes on from it"));
  EXPECT_EQ(fs::file_size(partial()), 5000U);
  expect_whole(fetch(session()));
}

TEST_F(DownloadTest, ADiskThatIsFullWhileContentsComeIsNamed) {
  fs::create_directories(fs::path(partial()).parent_path());
  fs::create_symlink("/dev/full", partial());
  const Result<Fetched> fetched = fetch(session());
  ASSERT_FALSE(fetched);
  EXPECT_EQ(fetched.error().code, ErrorCode::kUnavailable);
  EXPECT_THAT(fetched.error().message, HasSubstr(partial() + ": No space left on device"));
}

TEST_F(DownloadTest, WithoutRoomForAllNothingIsFetched) {
  const std::string large(40, 'a');
  const CommitFiles files{.reference = reference(),
                          .commit = commit_,
                          .tree = {{"large", {.num_bytes = int64_t{1} << 60, .blob_id = large}}}};
  const Result<void> fetched = fetch_files(session(), files, {"large"}, progress_);
  ASSERT_FALSE(fetched);
  EXPECT_EQ(fetched.error().code, ErrorCode::kUnavailable);
  EXPECT_THAT(fetched.error().message, HasSubstr("needs 1152921504606846976 bytes more"));
  EXPECT_TRUE(server_.requests().empty());
}

TEST_F(DownloadTest, ACacheThatCannotBeWrittenIsNamed) {
  write_text(folder_ / "hub", "a file");
  const Result<Fetched> fetched = fetch(session());
  ASSERT_FALSE(fetched);
  EXPECT_THAT(fetched.error().message, HasSubstr(folder_ / "hub"));
  EXPECT_THAT(fetched.error().hint, HasSubstr("HF_HOME"));
}

TEST_F(DownloadTest, RanksOfANodeFetchAFileOnce) {
  constexpr int kRanks = 4;
  std::vector<Result<Fetched>> results(kRanks, Result<Fetched>(Fetched()));
  {
    std::vector<std::jthread> ranks;
    ranks.reserve(kRanks);
    for (Result<Fetched>& result : results) {
      ranks.emplace_back([this, &result] {
        HubSession own = session();
        own.pause = [](std::chrono::seconds, const std::stop_token&) {
          std::this_thread::sleep_for(std::chrono::milliseconds(1));
        };
        FetchProgress progress;
        result = fetch_model(own, reference(), commit_, true, progress);
      });
    }
  }
  for (const Result<Fetched>& result : results) {
    ASSERT_TRUE(result) << result.error().message;
    EXPECT_EQ(read_text(result->place + "/" + kWeights), model().files.at(kWeights));
  }
  EXPECT_EQ(server_.count("/contents/"), 3);  // three files
}

TEST_F(DownloadTest, WhoIsToldToStopLeavesWhatCame) {
  std::stop_source stop;
  HubSession first = session();
  first.stop = stop.get_token();
  first.pause = [&stop](std::chrono::seconds, const std::stop_token&) { stop.request_stop(); };
  add_faults(1, {.cut_after = 5000});
  const Result<Fetched> fetched = fetch(first);
  ASSERT_FALSE(fetched);
  EXPECT_EQ(fetched.error().code, ErrorCode::kUnavailable);
  EXPECT_EQ(fs::file_size(partial()), 5000U);
}

}  // namespace
}  // namespace lockstep::runtime

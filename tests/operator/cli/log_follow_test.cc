// Following the logs of a job: what is printed once, what is asked for again, and when it ends.
#include "operator/cli/log_follow.h"

#include <functional>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "operator/cli/exit_status.h"
#include "operator/kube/mutex.h"
#include "tests/operator/cli/log_client.h"
#include "tests/operator/controller/fake_api_server.h"
#include "tests/operator/controller/operator_run.h"

namespace lockstep::cli {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;

constexpr std::chrono::milliseconds kSoon{5};

std::string stamped(int second, const std::string& text) {
  return "2026-11-23T01:02:0" + std::to_string(second) + ".000000001Z " + text;
}

// What of `lines` is news at `place`.
std::vector<std::string> taken(LogPlace& place, const std::vector<std::string>& lines) {
  std::vector<std::string> texts;
  place.reopen();
  for (const std::string& line : lines) {
    std::string_view text;
    if (place.take(line, text)) texts.emplace_back(text);
  }
  return texts;
}

using Texts = std::vector<std::string>;

TEST(LogPlaceTest, EveryLineIsTakenOnceOverAllStreams) {
  LogPlace place;
  EXPECT_EQ(taken(place, {stamped(1, "a"), stamped(2, "b"), stamped(2, "b again")}),
            (Texts{"a", "b", "b again"}));
  EXPECT_EQ(taken(place, {stamped(1, "a"), stamped(2, "b"), stamped(2, "b again")}), Texts{});
  EXPECT_EQ(taken(place, {stamped(2, "b"), stamped(2, "b again"), stamped(2, "third of its time"),
                          stamped(3, "c")}),
            (Texts{"third of its time", "c"}));
  EXPECT_EQ(place.last(), "2026-11-23T01:02:03.000000001Z");
}

TEST(LogPlaceTest, LineWithoutATimeStampIsTakenAsItIs) {
  LogPlace place;
  EXPECT_EQ(taken(place, {"", "word", "a line of words", stamped(1, "")}),
            (Texts{"", "word", "a line of words", ""}));
}

TEST(LogPlaceTest, StreamBeginsWhereTheLastOneEnded) {
  LogPlace place;
  EXPECT_EQ(follow_query(place, -1), "container=trainer&follow=true&timestamps=true");
  EXPECT_EQ(follow_query(place, 5), "container=trainer&follow=true&timestamps=true&tailLines=5");
  taken(place, {stamped(1, "a")});
  EXPECT_EQ(follow_query(place, 5),
            "container=trainer&follow=true&timestamps=true&"
            "sinceTime=2026-11-23T01%3A02%3A01.000000001Z");
}

// Each stream of a pod's log is the next of its script, and the last one again and again.
class ScriptedLogs {
 public:
  struct Stream {
    Texts lines;
    std::function<void()> afterwards{};
    std::optional<kube::ApiError> refusal{};
  };

  explicit ScriptedLogs(std::map<std::string, std::vector<Stream>> script)
      : script_(std::move(script)) {}

  std::optional<kube::ApiError> stream(const kube::ResourcePath& path, const std::string& query,
                                       const std::function<bool(std::string_view)>& on_line) {
    const Stream stream = next(path.name, query);
    for (const std::string& line : stream.lines) on_line(line);
    if (stream.afterwards) stream.afterwards();
    return stream.refusal;
  }
  Texts asked() const {
    const kube::MutexLock lock(mutex_);
    return asked_;
  }

 private:
  Stream next(const std::string& pod, const std::string& query) {
    const kube::MutexLock lock(mutex_);
    asked_.push_back(pod + "?" + query);
    std::vector<Stream>& streams = script_[pod];
    if (streams.empty()) return {};
    Stream stream = streams.front();
    if (streams.size() > 1) streams.erase(streams.begin());
    return stream;
  }

  mutable kube::Mutex mutex_;
  std::map<std::string, std::vector<Stream>> script_ GUARDED_BY(mutex_);
  Texts asked_ GUARDED_BY(mutex_);
};

class FollowLogsTest : public ::testing::Test {
 protected:
  FollowLogsTest() { server_.add("trainingjobs", control::demo_job(2)); }

  void add_pod(const std::string& name, const char* phase) {
    server_.add("pods", {{"metadata",
                          {{"name", name},
                           {"namespace", "default"},
                           {"labels", {{"lockstep.dev/job-name", "demo"}}}}},
                         {"status", {{"phase", phase}}}});
  }
  void set_phase(const std::string& name, const char* phase) {
    server_.edit("pods", {"default", name}, [phase](json& pod) { pod["status"]["phase"] = phase; });
  }
  void finish(const char* condition) {
    server_.edit("trainingjobs", control::kDemo, [condition](json& job) {
      job["status"]["conditions"] = json::array({{{"type", condition}, {"status", "True"}}});
    });
  }
  int follow(ScriptedLogs& logs, bool all_ranks) {
    LogClient client(server_, std::bind_front(&ScriptedLogs::stream, &logs));
    const Session session{client, "default", "", out_, err_};
    return follow_logs({.name = "demo", .all_ranks = all_ranks, .follow = true}, session, kSoon);
  }
  // All pods and the job have ended.
  std::function<void()> end_all(const char* phase, const char* condition) {
    return [this, phase, condition] {
      for (const json& pod : server_.objects("pods")) {
        set_phase(pod["metadata"]["name"].get<std::string>(), phase);
      }
      finish(condition);
    };
  }

  control::FakeApiServer server_;
  std::ostringstream out_, err_;
};

TEST_F(FollowLogsTest, StreamThatWasCutGoesOnWhereItEnded) {
  add_pod("demo-0-0", "Running");
  add_pod("demo-0-1", "Pending");
  ScriptedLogs logs({{"demo-0-0",
                      {{.lines = {stamped(1, "one"), stamped(2, "two")}},
                       {.lines = {stamped(2, "two"), stamped(3, "three")},
                        .afterwards = end_all("Succeeded", "Succeeded")}}}});
  EXPECT_EQ(follow(logs, false), kOk);
  EXPECT_EQ(out_.str(), "one\ntwo\nthree\n");
  EXPECT_EQ(logs.asked(), (Texts{"demo-0-0?container=trainer&follow=true&timestamps=true",
                                 "demo-0-0?container=trainer&follow=true&timestamps=true&"
                                 "sinceTime=2026-11-23T01%3A02%3A02.000000001Z"}));
}

TEST_F(FollowLogsTest, AllRanksArePrefixedAndLaterAttemptsAreFollowedToo) {
  add_pod("demo-0-0", "Running");
  add_pod("demo-0-1", "Running");
  const auto restart = [this] {
    for (const char* old : {"demo-0-0", "demo-0-1"}) set_phase(old, "Failed");
    add_pod("demo-1-0", "Running");
    add_pod("demo-1-1", "Pending");
  };
  ScriptedLogs logs(
      {{"demo-0-0", {{.lines = {stamped(1, "a")}}}},
       {"demo-0-1",
        {{.lines = {stamped(1, "b")}, .afterwards = restart}, {.lines = {stamped(1, "b")}}}},
       {"demo-1-0", {{.lines = {stamped(4, "again")}, .afterwards = end_all("Failed", "Failed")}}},
       {"demo-1-1", {{.lines = {stamped(5, "late")}}}}});
  EXPECT_EQ(follow(logs, true), kFailed) << "the job failed";
  for (const char* line : {"[rank 0] a\n", "[rank 1] b\n", "[rank 0] again\n", "[rank 1] late\n"}) {
    EXPECT_THAT(out_.str(), HasSubstr(line));
  }
  EXPECT_EQ(out_.str().size(), std::string("[rank 0] a\n[rank 1] b\n[rank 0] again\n"
                                           "[rank 1] late\n")
                                   .size())
      << "each once: " << out_.str();
}

TEST_F(FollowLogsTest, JobThatHasEndedIsPrintedAndOver) {
  add_pod("demo-0-0", "Succeeded");
  finish("Succeeded");
  ScriptedLogs logs({{"demo-0-0", {{.lines = {stamped(1, "all"), stamped(2, "done")}}}}});
  EXPECT_EQ(follow(logs, false), kOk);
  EXPECT_EQ(out_.str(), "all\ndone\n");
}

TEST_F(FollowLogsTest, RefusalIsToldAndEndsIt) {
  add_pod("demo-0-0", "Running");
  ScriptedLogs logs({{"demo-0-0",
                      {{.refusal = control::refusal(common::ErrorCode::kPermissionDenied, 403,
                                                    "no pods/log")}}}});
  EXPECT_EQ(follow(logs, false), kForbidden);
  EXPECT_THAT(err_.str(), HasSubstr("no pods/log"));
}

TEST_F(FollowLogsTest, LogThatCannotBeReadAnyMoreIsTold) {
  add_pod("demo-0-0", "Succeeded");
  finish("Succeeded");
  ScriptedLogs logs(
      {{"demo-0-0",
        {{.refusal = control::refusal(common::ErrorCode::kUnavailable, 500, "node is away")}}}});
  EXPECT_EQ(follow(logs, false), kUnreachable);
  EXPECT_THAT(err_.str(), HasSubstr("node is away"));
}

TEST_F(FollowLogsTest, JobThatIsDeletedIsAnError) {
  add_pod("demo-0-0", "Running");
  ScriptedLogs logs({{"demo-0-0", {{.lines = {stamped(1, "a")}, .afterwards = [this] {
                                      server_.erase("trainingjobs", control::kDemo);
                                    }}}}});
  EXPECT_EQ(follow(logs, false), kNoSuchJob);
  EXPECT_EQ(out_.str(), "a\n");
}

}  // namespace
}  // namespace lockstep::cli

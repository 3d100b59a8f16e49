#include "operator/controller/progress_poller.h"

#include <condition_variable>
#include <mutex>
#include <set>

#include <gtest/gtest.h>

namespace lockstep::control {
namespace {

using common::JobProgress;
using common::Result;
using std::chrono::milliseconds;

constexpr std::chrono::seconds kLiveness{60};

// Ranks that answer, or hang until they are let go; and the wake-ups that followed.
class Ranks {
 public:
  Result<JobProgress> fetch(const std::string& host) {
    std::unique_lock lock(mutex_);
    ++num_asked_[host];
    changed_.notify_all();
    changed_.wait(lock, [&] { return !hanging_.contains(host); });
    const auto found = answers_.find(host);
    if (found == answers_.end()) return common::Error{common::ErrorCode::kUnavailable, "dead", ""};
    return found->second;
  }
  void answer(const std::string& host, JobProgress progress) {
    const std::lock_guard lock(mutex_);
    answers_[host] = std::move(progress);
  }
  void hang(const std::string& host) {
    const std::lock_guard lock(mutex_);
    hanging_.insert(host);
  }
  void let_go() {
    const std::lock_guard lock(mutex_);
    hanging_.clear();
    changed_.notify_all();
  }
  void wake(const kube::ObjectKey& job) {
    const std::lock_guard lock(mutex_);
    ++num_woken_[job.name];
    changed_.notify_all();
  }
  bool await_asked(const std::string& host, int times) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, kLiveness, [&] { return num_asked_[host] >= times; });
  }
  bool await_woken(const std::string& job, int times) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, kLiveness, [&] { return num_woken_[job] >= times; });
  }
  int num_woken(const std::string& job) {
    const std::lock_guard lock(mutex_);
    return num_woken_[job];
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<std::string, JobProgress> answers_;
  std::set<std::string> hanging_;
  std::map<std::string, int> num_asked_, num_woken_;
};

JobProgress at_step(const std::string& job, int attempt, int64_t step) {
  JobProgress progress;
  progress.job = job;
  progress.attempt = attempt;
  progress.phase = "training";
  progress.step = step;
  return progress;
}

struct Polled {
  Ranks ranks;
  ProgressPoller poller{{.interval = milliseconds(1), .num_threads = 2},
                        [this](const ProgressTarget& target) { return ranks.fetch(target.host); },
                        [this](const kube::ObjectKey& job) { ranks.wake(job); }};
};

const kube::ObjectKey kA{"ns", "a"};
const kube::ObjectKey kB{"ns", "b"};

TEST(ProgressPollerTest, TellsOfANewStepOnce) {
  Polled polled;
  polled.ranks.answer("host-a", at_step("a", 0, 5));
  polled.poller.watch(kA, {{.rank = 0, .host = "host-a", .port = 9400, .attempt = 0}});
  ASSERT_TRUE(polled.ranks.await_woken("a", 1));
  ASSERT_TRUE(polled.ranks.await_asked("host-a", 5));
  EXPECT_EQ(polled.ranks.num_woken("a"), 1) << "the same step is no news";
  EXPECT_EQ(polled.poller.latest(kA).value().step, 5);
  polled.ranks.answer("host-a", at_step("a", 0, 6));
  ASSERT_TRUE(polled.ranks.await_woken("a", 2));
  EXPECT_EQ(polled.poller.latest(kA).value().step, 6);
}

TEST(ProgressPollerTest, ARankThatHangsDoesNotKeepOtherJobsWaiting) {
  Polled polled;
  polled.ranks.hang("host-a");
  polled.ranks.answer("host-b", at_step("b", 0, 1));
  polled.poller.watch(kA, {{.rank = 0, .host = "host-a", .port = 9400, .attempt = 0}});
  ASSERT_TRUE(polled.ranks.await_asked("host-a", 1));
  polled.poller.watch(kB, {{.rank = 0, .host = "host-b", .port = 9400, .attempt = 0}});
  EXPECT_TRUE(polled.ranks.await_asked("host-b", 10));
  EXPECT_TRUE(polled.poller.latest(kB).has_value());
  polled.ranks.let_go();
}

TEST(ProgressPollerTest, IgnoresAnotherAttemptAndAnotherJobAtTheAddress) {
  Polled polled;
  polled.ranks.answer("host-a", at_step("a", 0, 5));
  polled.ranks.answer("host-b", at_step("somebody", 0, 5));
  polled.poller.watch(kA, {{.rank = 0, .host = "host-a", .port = 9400, .attempt = 1}});
  polled.poller.watch(kB, {{.rank = 0, .host = "host-b", .port = 9400, .attempt = 0}});
  ASSERT_TRUE(polled.ranks.await_asked("host-a", 2));
  ASSERT_TRUE(polled.ranks.await_asked("host-b", 2));
  EXPECT_FALSE(polled.poller.latest(kA).has_value());
  EXPECT_FALSE(polled.poller.latest(kB).has_value());
}

TEST(ProgressPollerTest, DropsWhatAnOlderTargetToldAndWhatIsForgotten) {
  Polled polled;
  polled.ranks.answer("host-a", at_step("a", 0, 5));
  polled.poller.watch(kA, {{.rank = 0, .host = "host-a", .port = 9400, .attempt = 0}});
  ASSERT_TRUE(polled.ranks.await_woken("a", 1));
  polled.poller.watch(kA, {{.rank = 0, .host = "host-a2", .port = 9400, .attempt = 1}});
  EXPECT_FALSE(polled.poller.latest(kA).has_value());
  ASSERT_TRUE(polled.ranks.await_asked("host-a2", 1));
  polled.poller.forget(kA);
  EXPECT_FALSE(polled.poller.latest(kA).has_value());
}

TEST(ProgressPollerTest, TellsTheHeartbeatsOfTheRanksThatItWasTold) {
  Polled polled;
  JobProgress first = at_step("a", 0, 5);
  first.age_seconds = 40;
  JobProgress second = first;
  second.rank = 1;
  second.age_seconds = 60;
  polled.ranks.answer("host-a0", first);
  polled.ranks.answer("host-a1", second);
  const ProgressTarget rank_0 = {.rank = 0, .host = "host-a0", .port = 9400, .attempt = 0};
  const ProgressTarget rank_1 = {.rank = 1, .host = "host-a1", .port = 9400, .attempt = 0};
  const ProgressTarget rank_2 = {.rank = 2, .host = "nobody", .port = 9400, .attempt = 0};
  polled.poller.watch(kA, {rank_0});
  ASSERT_TRUE(polled.ranks.await_asked("host-a0", 2));
  EXPECT_EQ(polled.poller.pulses(kA).size(), 1U);
  EXPECT_GE(polled.poller.idle(kA), std::chrono::seconds(40));
  polled.poller.watch(kA, {rank_0, rank_1, rank_2});
  EXPECT_TRUE(polled.poller.latest(kA).has_value()) << "what rank 0 told stays";
  ASSERT_TRUE(polled.ranks.await_asked("host-a1", 2));
  ASSERT_TRUE(polled.ranks.await_asked("nobody", 3));
  const std::vector<plan::Pulse> pulses = polled.poller.pulses(kA);
  ASSERT_EQ(pulses.size(), 3U);
  EXPECT_GE(pulses[0].age.value(), std::chrono::seconds(40));
  EXPECT_GE(pulses[1].age.value(), std::chrono::seconds(60));
  EXPECT_FALSE(pulses[2].age.has_value());
  EXPECT_EQ(polled.ranks.num_woken("a"), 1) << "only rank 0 makes news";
  polled.poller.watch(kA, {rank_0});
  EXPECT_EQ(polled.poller.pulses(kA).size(), 1U);
}

TEST(ProgressPollerTest, IgnoresAnotherRankAtTheAddress) {
  Polled polled;
  polled.ranks.answer("host-a", at_step("a", 0, 5));  // rank 0
  polled.poller.watch(kA, {{.rank = 1, .host = "host-a", .port = 9400, .attempt = 0}});
  ASSERT_TRUE(polled.ranks.await_asked("host-a", 3));
  EXPECT_FALSE(polled.poller.pulses(kA).at(0).age.has_value());
}

}  // namespace
}  // namespace lockstep::control

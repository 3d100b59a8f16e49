#include "operator/kube/election.h"

#include <set>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "operator/kube/write_fence.h"

namespace lockstep::kube {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::HasSubstr;
using Time = Election::Time;

constexpr const char* kWall = "2026-11-22T07:00:00.000000Z";

Time at(double second) {
  return Time(
      std::chrono::duration_cast<BootClock::duration>(std::chrono::duration<double>(second)));
}

ElectionSettings settings() {
  ElectionSettings settings;
  settings.identity = "me";
  settings.jitter = 0;
  return settings;
}

Lease lease_of(const std::string& holder, const std::string& version, const std::string& renewed) {
  return {{.holder = holder,
           .duration = seconds(15),
           .acquire_time = "then",
           .renew_time = renewed,
           .transitions = 4},
          version,
          "uid"};
}

// What the server makes of a write.
Lease taken(const Election::Write& write, const std::string& version) {
  return {write.record, version, "uid"};
}

template <typename T>
const T& expect(const Election::Step& step) {
  EXPECT_TRUE(std::holds_alternative<T>(step)) << "step " << step.index();
  return std::get<T>(step);
}

Election::Write next_write(const Election& election, double second) {
  return expect<Election::Write>(election.next(at(second), kWall));
}

// One that leads since second 0 and knows version "1".
Election leader() {
  Election election(settings());
  election.on_read(std::nullopt, at(0));
  const Election::Write write = next_write(election, 0);
  election.on_written(write, taken(write, "1"), at(0), at(0));
  return election;
}

TEST(ElectionTest, WhoFindsNoLeaseCreatesItAndLeads) {
  Election election(settings());
  expect<Election::Read>(election.next(at(0), kWall));
  election.on_read(std::nullopt, at(0.1));
  const Election::Write write = next_write(election, 0.1);
  EXPECT_EQ(write.version, "");
  EXPECT_EQ(write.record.holder, "me");
  EXPECT_EQ(write.record.duration, seconds(15));
  EXPECT_EQ(write.record.acquire_time, kWall);
  EXPECT_EQ(write.record.renew_time, kWall);
  EXPECT_EQ(write.record.transitions, 0);
  EXPECT_FALSE(election.is_leader(at(0.1)));
  election.on_written(write, taken(write, "1"), at(0.1), at(0.2));
  EXPECT_TRUE(election.is_leader(at(0.2)));
  EXPECT_EQ(expect<Election::Rest>(election.next(at(0.2), kWall)).until, at(2.1));
}

TEST(ElectionTest, ALeaseThatChangesIsNeverTakenWhateverItsTimesSay) {
  Election election(settings());
  for (int i = 0; i < 20; ++i) {
    // The holder's clock is years behind: by its times the Lease ended long ago.
    election.on_read(lease_of("other", std::to_string(i), "2001-01-01T00:00:0" + std::to_string(i)),
                     at(10 * i));
    EXPECT_EQ(expect<Election::Rest>(election.next(at(10 * i), kWall)).until, at(10 * i + 2));
  }
}

TEST(ElectionTest, ALeaseIsTakenWhenItHasNotChangedForItsOwnDuration) {
  Election election(settings());
  Lease slow = lease_of("other", "7", "3001-01-01T00:00:00Z");  // a clock of the far future
  slow.record.duration = seconds(40);
  election.on_read(slow, at(100));
  slow.version = "8";  // somebody's label: no renewal
  for (double second = 102; second < 140; second += 2) {
    expect<Election::Read>(election.next(at(second), kWall));
    election.on_read(slow, at(second));
    expect<Election::Rest>(election.next(at(second), kWall));
  }
  election.on_read(slow, at(140));
  const Election::Write write = next_write(election, 140);
  EXPECT_EQ(write.version, "8");
  EXPECT_EQ(write.record.transitions, 5);
  EXPECT_EQ(write.record.acquire_time, kWall);
  EXPECT_EQ(write.record.duration, seconds(15));
}

TEST(ElectionTest, AReleasedLeaseIsTakenAtOnce) {
  Election election(settings());
  election.on_read(lease_of("", "7", "x"), at(0));
  EXPECT_EQ(next_write(election, 0).record.transitions, 5);
}

TEST(ElectionTest, ADeletedLeaseOfAHolderThatWasSeenIsWaitedFor) {
  Election election(settings());
  election.on_read(lease_of("other", "7", "x"), at(0));
  election.on_read(std::nullopt, at(2));
  expect<Election::Rest>(election.next(at(2), kWall));
  election.on_read(std::nullopt, at(15));
  const Election::Write write = next_write(election, 15);
  EXPECT_EQ(write.version, "");
  EXPECT_EQ(write.record.transitions, 4);
}

TEST(ElectionTest, WhoWaitsLooksAtIrregularTimes) {
  ElectionSettings with_jitter = settings();
  with_jitter.jitter = 1.2;
  Election election(with_jitter);
  std::set<int64_t> waits;
  for (int i = 0; i < 10; ++i) {
    election.on_read(lease_of("other", "7", std::to_string(i)), at(0));
    const Time until = expect<Election::Rest>(election.next(at(0), kWall)).until;
    EXPECT_GE(until, at(2));
    EXPECT_LE(until, at(4.4));
    waits.insert(until.time_since_epoch().count());
  }
  EXPECT_GT(waits.size(), 5U);
}

TEST(ElectionTest, ALeaderRenewsOnWhatItWroteAndKeepsTimeAndCount) {
  Election election = leader();
  const Election::Write write = next_write(election, 2);
  EXPECT_EQ(write.version, "1");
  EXPECT_EQ(write.record.transitions, 0);
  EXPECT_EQ(write.record.acquire_time, kWall);
  election.on_written(write, taken(write, "2"), at(2), at(5));
  EXPECT_TRUE(election.is_leader(at(11.9)));  // from the sending on, not from the answer
  EXPECT_FALSE(election.is_leader(at(12)));
}

TEST(ElectionTest, AFailedRenewalLooksAndTriesAgainAtOnceThenEveryRetryPeriod) {
  Election election = leader();
  election.on_write_failed(at(2.5));
  expect<Election::Read>(election.next(at(2.5), kWall));
  election.on_read(lease_of("me", "5", "x"), at(2.6));  // our write, whose answer was lost
  const Election::Write again = next_write(election, 2.6);
  EXPECT_EQ(again.version, "5");
  EXPECT_EQ(again.record.transitions, 4);
  EXPECT_EQ(again.record.acquire_time, "then");
  EXPECT_EQ(election.state().leads_until, at(10)) << "a read renews nothing";
  election.on_write_failed(at(2.7));
  EXPECT_EQ(expect<Election::Rest>(election.next(at(2.7), kWall)).until, at(4.7));
  election.on_read_failed(at(9));
  EXPECT_EQ(expect<Election::Rest>(election.next(at(9), kWall)).until, at(10));
}

TEST(ElectionTest, ALeaderThatCannotRenewLosesAtItsDeadline) {
  const Election election = leader();
  EXPECT_TRUE(election.is_leader(at(9.999)));
  EXPECT_FALSE(election.is_leader(at(10)));
  EXPECT_THAT(expect<Election::Lost>(election.next(at(10), kWall)).why, HasSubstr("10000 ms"));
  EXPECT_FALSE(election.release(at(10), kWall).has_value());
}

TEST(ElectionTest, ALeaderThatSeesAnotherHolderLosesAtOnce) {
  for (const char* holder : {"other", ""}) {
    Election election = leader();
    election.on_write_failed(at(2));
    election.on_read(lease_of(holder, "9", "x"), at(2));
    EXPECT_FALSE(election.is_leader(at(2)));
    EXPECT_THAT(expect<Election::Lost>(election.next(at(2), kWall)).why, HasSubstr("the Lease"));
  }
}

TEST(ElectionTest, ALeaderWhoseLeaseIsDeletedMakesItAgain) {
  Election election = leader();
  election.on_write_failed(at(2));
  election.on_read(std::nullopt, at(2));
  EXPECT_EQ(next_write(election, 2).version, "");
}

TEST(ElectionTest, AnElectionWhoseAnswerComesTooLateIsMadeAgain) {
  Election election(settings());
  election.on_read(std::nullopt, at(0));
  const Election::Write write = next_write(election, 0);
  election.on_written(write, taken(write, "1"), at(0), at(11));
  EXPECT_FALSE(election.is_leader(at(11)));
  expect<Election::Read>(election.next(at(11), kWall));
  election.on_read(taken(write, "1"), at(11));
  const Election::Write again = next_write(election, 11);
  EXPECT_EQ(again.record.transitions, 0);
  election.on_written(again, taken(again, "2"), at(11), at(11));
  EXPECT_TRUE(election.is_leader(at(11)));
}

TEST(ElectionTest, WhoFailsToTakeALeaseLooksAgainLater) {
  Election election(settings());
  election.on_read(lease_of("", "7", "x"), at(0));
  election.on_write_failed(at(0));  // somebody was faster
  EXPECT_EQ(expect<Election::Rest>(election.next(at(0), kWall)).until, at(2));
  expect<Election::Read>(election.next(at(2), kWall));
}

TEST(ElectionTest, ReleasingLeavesNoHolderForASecond) {
  const std::optional<Election::Write> write = leader().release(at(3), kWall);
  ASSERT_TRUE(write.has_value());
  EXPECT_EQ(write->version, "1");
  EXPECT_EQ(write->record.holder, "");
  EXPECT_EQ(write->record.duration, seconds(1));
  EXPECT_EQ(write->record.transitions, 0);
  EXPECT_FALSE(Election(settings()).release(at(0), kWall).has_value());
}

TEST(ElectionTest, SettingsThatCannotWorkAreRefused) {
  const struct {
    milliseconds lease, deadline, retry;
    const char* why;
  } cases[] = {{milliseconds(15000), milliseconds(10000), milliseconds(2000), ""},
               {milliseconds(2000), milliseconds(1300), milliseconds(1000), ""},
               {milliseconds(10000), milliseconds(10000), milliseconds(2000), "lease duration"},
               {milliseconds(15000), milliseconds(2400), milliseconds(2000), "renew deadline"},
               {milliseconds(15000), milliseconds(10000), milliseconds(0), "retry period"},
               {milliseconds(1500), milliseconds(1300), milliseconds(1000), "whole seconds"}};
  for (const auto& one : cases) {
    ElectionSettings settings;
    settings.lease_duration = one.lease;
    settings.renew_deadline = one.deadline;
    settings.retry_period = one.retry;
    const common::Result<void> checked = check_settings(settings);
    EXPECT_EQ(checked.has_value(), *one.why == '\0');
    if (!checked) {
      EXPECT_THAT(checked.error().message, HasSubstr(one.why));
    }
  }
}

TEST(LeaseTest, IsWrittenAsClientGoDoesAndReadBack) {
  const LeaseRecord record{.holder = "me",
                           .duration = seconds(15),
                           .acquire_time = "2026-11-22T07:00:00.000000Z",
                           .renew_time = "2026-11-22T07:00:02.000001Z",
                           .transitions = 3};
  const nlohmann::json object = encode_lease(lease_path("ns", "name"), record, "12");
  EXPECT_EQ(object["spec"], nlohmann::json::parse(R"({"holderIdentity": "me",
      "leaseDurationSeconds": 15, "leaseTransitions": 3,
      "acquireTime": "2026-11-22T07:00:00.000000Z", "renewTime": "2026-11-22T07:00:02.000001Z"})"));
  EXPECT_EQ(decode_lease(object).record, record);
  EXPECT_EQ(decode_lease(object).version, "12");
  EXPECT_FALSE(
      encode_lease(lease_path("ns", "name"), record, "")["metadata"].contains("resourceVersion"));
  EXPECT_EQ(url_path(lease_path("ns", "name")),
            "/apis/coordination.k8s.io/v1/namespaces/ns/leases/name");
}

TEST(LeaseTest, AnObjectOfAnotherShapeReadsAsNobodys) {
  for (const char* text : {"{}", R"({"spec": null})", R"({"spec": {"holderIdentity": 3}})",
                           R"({"spec": {"leaseDurationSeconds": "x"}, "metadata": []})"}) {
    EXPECT_EQ(decode_lease(nlohmann::json::parse(text)).record, LeaseRecord{}) << text;
  }
}

TEST(LeaseTest, TimesHaveMicroseconds) {
  const auto time = std::chrono::sys_days(std::chrono::year(2026) / 11 / 22) +
                    std::chrono::hours(7) + std::chrono::microseconds(42);
  EXPECT_EQ(format_micro_time(time), "2026-11-22T07:00:00.000042Z");
}

TEST(WriteFenceTest, IsOpenFromItsOpeningToItsDeadline) {
  WriteFence fence;
  EXPECT_FALSE(fence.is_open());
  fence.open_until(BootClock::now() + std::chrono::hours(1));
  EXPECT_TRUE(fence.is_open());
  fence.close();
  EXPECT_FALSE(fence.is_open());
  fence.open_until(BootClock::now() - std::chrono::nanoseconds(1));
  EXPECT_FALSE(fence.is_open());
}

}  // namespace
}  // namespace lockstep::kube

// Operators with leader election against the API server in memory, over real connections.
#include "operator/controller/leadership.h"

#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "operator/controller/controller.h"
#include "tests/operator/controller/fake_api_server.h"
#include "tests/operator/controller/operator_run.h"
#include "tests/operator/controller/served_api.h"

namespace lockstep::control {
namespace {

using nlohmann::json;
using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::HasSubstr;
using Clock = std::chrono::steady_clock;

constexpr seconds kLimit{60};  // of liveness only
const kube::ObjectKey kLease{"default", "lockstep-operator"};

template <typename Predicate>
bool await(Predicate holds) {
  const Clock::time_point deadline = Clock::now() + kLimit;
  while (!holds()) {
    if (Clock::now() > deadline) return false;
    std::this_thread::sleep_for(milliseconds(5));
  }
  return true;
}

// An operator on a thread, as its own process would be.
class Replica {
 public:
  Replica(const ServedApi& api, const std::string& identity) {
    options_.cluster.server = api.url();
    options_.cluster.ns = "default";
    options_.listen_address = "127.0.0.1";
    options_.port = 0;
    options_.num_workers = 1;
    options_.watch_timeout = seconds(1);
    options_.leadership.enabled = true;
    options_.leadership.settings.identity = identity;
    options_.leadership.settings.lease_duration = milliseconds(2000);
    options_.leadership.settings.renew_deadline = milliseconds(1000);
    options_.leadership.settings.retry_period = milliseconds(200);
    thread_ = std::jthread([this] { ended_ = run_controller(options_, stop_); });
  }
  ~Replica() {
    eventfd_write(stop_, 1);
    if (thread_.joinable()) thread_.join();
    close(stop_);
  }
  // As SIGTERM does; blocks until the process would be gone.
  common::Result<void> end() {
    eventfd_write(stop_, 1);
    if (thread_.joinable()) thread_.join();
    return ended_;
  }
  // Blocks until it ends by itself.
  common::Result<void> await_end() {
    thread_.join();
    return ended_;
  }

 private:
  ControllerOptions options_;
  const int stop_ = eventfd(0, EFD_CLOEXEC);
  common::Result<void> ended_;
  std::jthread thread_;
};

class LeadershipTest : public ::testing::Test {
 protected:
  std::string holder() const { return lease()["spec"].value("holderIdentity", ""); }
  json lease() const {
    return server_.object("leases", kLease).value_or(json{{"spec", json::object()}});
  }
  bool has_pods(std::size_t count) const { return server_.objects("pods").size() == count; }
  std::string events() const {
    std::string all;
    for (const json& event : server_.objects("events")) {
      if (event["involvedObject"]["kind"] != "Lease") continue;
      all += event["reason"].get<std::string>() + ": " + event["message"].get<std::string>() + "\n";
    }
    return all;
  }

  FakeApiServer server_;
  ServedApi api_{server_};
};

TEST_F(LeadershipTest, OneLeadsAndTheOtherTakesOverAtOnceWhenItEnds) {
  Replica first(api_, "first");
  ASSERT_TRUE(await([&] { return holder() == "first"; }));
  Replica second(api_, "second");
  server_.add("trainingjobs", demo_job(2));
  ASSERT_TRUE(await([&] { return has_pods(2); }));
  EXPECT_EQ(holder(), "first");
  EXPECT_EQ(lease()["spec"]["leaseTransitions"], 0);
  EXPECT_EQ(lease()["spec"]["leaseDurationSeconds"], 2);

  EXPECT_TRUE(first.end().has_value());
  ASSERT_TRUE(await([&] { return holder() == "second"; }));
  EXPECT_EQ(lease()["spec"]["leaseTransitions"], 1);
  server_.edit("trainingjobs", kDemo, [](json& job) {
    job["spec"]["suspend"] = true;
    job["metadata"]["generation"] = 2;
  });
  EXPECT_TRUE(await([&] { return has_pods(0); })) << "the second does the work now";
  EXPECT_THAT(events(), HasSubstr("LeaderElection: first became leader\n"));
  EXPECT_THAT(events(), HasSubstr("LeaderElection: first stopped leading\n"));
  EXPECT_THAT(events(), HasSubstr("LeaderElection: second became leader\n"));
}

TEST_F(LeadershipTest, TheLeaseIsHandedOnAfterTheLastWrite) {
  Replica first(api_, "first");
  server_.add("trainingjobs", demo_job(2));
  ASSERT_TRUE(await([&] { return has_pods(2); }));
  EXPECT_TRUE(first.end().has_value());
  EXPECT_EQ(holder(), "");
  EXPECT_EQ(lease()["spec"]["leaseDurationSeconds"], 1);
  const std::vector<std::string> writes = server_.writes();
  EXPECT_EQ(writes.at(writes.size() - 2), "replace leases/lockstep-operator");
  EXPECT_EQ(writes.back(), "create events/LeaderElection");
}

TEST_F(LeadershipTest, WhoMayNotWriteTheLeaseEndsAndNothingIsWrittenAfterIt) {
  Replica only(api_, "only");
  ASSERT_TRUE(await([&] { return holder() == "only"; }));
  server_.set_on_write([](const std::string& write) -> std::optional<kube::ApiError> {
    if (write.find("leases/") == std::string::npos) return std::nullopt;
    return refusal(common::ErrorCode::kUnavailable, 503, "no leases today");
  });
  const common::Result<void> ended = only.await_end();
  ASSERT_FALSE(ended.has_value());
  EXPECT_EQ(ended.error().code, common::ErrorCode::kUnavailable);
  EXPECT_THAT(ended.error().message, HasSubstr("leader election lost: the Lease could not be"));
  server_.add("trainingjobs", demo_job(2));
  EXPECT_TRUE(has_pods(0));
}

TEST_F(LeadershipTest, WhoSeesAnotherHolderEnds) {
  Replica first(api_, "first");
  ASSERT_TRUE(await([&] { return holder() == "first"; }));
  server_.edit("leases", kLease, [](json& lease) { lease["spec"]["holderIdentity"] = "usurper"; });
  const common::Result<void> ended = first.await_end();
  ASSERT_FALSE(ended.has_value());
  EXPECT_THAT(ended.error().message, HasSubstr("usurper has taken the Lease"));
  EXPECT_EQ(holder(), "usurper");
}

TEST_F(LeadershipTest, AFollowerWritesNothing) {
  server_.add("leases", kube::encode_lease(kube::lease_path("default", kLease.name),
                                           {.holder = "absent", .duration = seconds(3600)}, ""));
  server_.add("trainingjobs", demo_job(2));
  Replica waiting(api_, "waiting");
  std::this_thread::sleep_for(milliseconds(500));
  EXPECT_TRUE(waiting.end().has_value());
  EXPECT_THAT(server_.writes(), ::testing::IsEmpty());
  EXPECT_EQ(holder(), "absent");
}

TEST_F(LeadershipTest, SettingsThatCannotWorkEndTheOperatorBeforeItBegins) {
  ControllerMetrics metrics(1);
  LeadershipOptions options{.enabled = true};
  options.settings.renew_deadline = seconds(20);
  kube::ClientConfig cluster;
  cluster.server = api_.url();
  const auto made = Leadership::make(cluster, options, metrics);
  ASSERT_FALSE(made.has_value());
  EXPECT_THAT(made.error().message, HasSubstr("lease duration"));
}

TEST_F(LeadershipTest, MetricsTellWhoLeadsUnderClientGosNames) {
  ControllerMetrics metrics(1);
  LeadershipOptions options{.enabled = true};
  options.settings.identity = "me";
  kube::ClientConfig cluster;
  cluster.server = api_.url();
  auto made = Leadership::make(cluster, options, metrics);
  ASSERT_TRUE(made.has_value());
  Leadership& leadership = **made;
  const std::string status = "leader_election_master_status{name=\"lockstep-operator\"} ";
  EXPECT_THAT(metrics.text({}), HasSubstr(status + "0\n"));
  EXPECT_FALSE(leadership.may_write());
  EXPECT_THAT(metrics.text({}), HasSubstr("lockstep_fenced_writes_total 1\n"));
  EXPECT_FALSE(leadership.vitals()->since_answer.has_value());
  leadership.start();
  ASSERT_TRUE(await([&] { return leadership.news() == kube::LeaderElector::State::kLeading; }));
  EXPECT_TRUE(leadership.may_write());
  EXPECT_TRUE(leadership.vitals()->since_answer.has_value());
  EXPECT_THAT(metrics.text({}), HasSubstr(status + "1\n"));
  EXPECT_THAT(metrics.text({}), HasSubstr("leader_election_slowpath_total{name="));
  leadership.release();
  EXPECT_FALSE(leadership.may_write());
  EXPECT_THAT(metrics.text({}), HasSubstr(status + "0\n"));
}

}  // namespace
}  // namespace lockstep::control

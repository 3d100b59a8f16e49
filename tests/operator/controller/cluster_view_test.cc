#include "operator/controller/cluster_view.h"

#include <chrono>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "operator/plan/names.h"
#include "tests/operator/controller/operator_run.h"

namespace lockstep::control {
namespace {

using nlohmann::json;
using testing::ElementsAre;
using testing::IsEmpty;
using testing::UnorderedElementsAre;

json job_in(const std::string& ns) {
  json job = demo_job(2);
  job["metadata"]["namespace"] = ns;
  return job;
}

json pod_in(const std::string& ns) {
  return {{"metadata",
           {{"name", "demo-0-0"},
            {"namespace", ns},
            {"labels", {{plan::kJobNameLabel, "demo"}, {plan::kRankLabel, "0"}}}}},
          {"spec", {{"nodeName", "node-1"}}}};
}

json node(const std::string& is_ready) {
  const json ready = {{"type", "Ready"}, {"status", is_ready}};
  return {{"metadata", {{"name", "node-1"}, {"namespace", ""}}},
          {"status", {{"conditions", json::array({ready})}}}};
}

// A view of `namespaces` (none: of all) that has been told of all that was there in `told` (none:
// in all of them), and whom it wakes.
class Watching {
 public:
  Watching(FakeApiServer& server, const std::vector<std::string>& namespaces,
           const std::vector<std::string>& told = {})
      : view_(server, {namespaces,
                       [this](const kube::ObjectKey& job) {
                         const kube::MutexLock lock(mutex_);
                         woken_.insert(kube::to_string(job));
                       },
                       [this](const std::string& message) {
                         const kube::MutexLock lock(mutex_);
                         troubles_.insert(message.substr(0, message.find(':')));
                       }}) {
    for (const std::string& ns : told.empty() ? namespaces : told) {
      await([&] { return view_.has_synced(ns); });
    }
    await([this] { return view_.has_synced(); });
  }

  const ClusterView& view() const { return view_; }
  std::set<std::string> woken() const {
    const kube::MutexLock lock(mutex_);
    return woken_;
  }
  // The namespaces that troubles were told of.
  std::set<std::string> troubles() const {
    const kube::MutexLock lock(mutex_);
    return troubles_;
  }
  void forget_woken() {
    const kube::MutexLock lock(mutex_);
    woken_.clear();
  }
  std::vector<std::string> jobs() const {
    std::vector<std::string> names;
    for (const api::TrainingJob& job : view_.jobs()) {
      names.push_back(job.meta.ns + "/" + job.meta.name);
    }
    return names;
  }
  static void await(const std::function<bool()>& holds) {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    while (!holds()) {
      ASSERT_LT(std::chrono::steady_clock::now(), deadline);
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  }

 private:
  mutable kube::Mutex mutex_;
  std::set<std::string> woken_ GUARDED_BY(mutex_);
  std::set<std::string> troubles_ GUARDED_BY(mutex_);
  ClusterView view_;  // last: its threads wake jobs
};

std::size_t num_pods(const ClusterView& view, const std::string& ns) {
  api::TrainingJob job;
  job.meta.ns = ns;
  job.meta.name = "demo";
  return view.observe(job).pods.size();
}

TEST(ClusterViewTest, HasTheJobsAndChildrenOfItsNamespacesAndNoOthers) {
  FakeApiServer server;
  for (const char* ns : {"red", "green", "blue"}) server.add("trainingjobs", job_in(ns));
  server.add("pods", pod_in("red"));
  Watching few(server, {"red", "green"});
  EXPECT_THAT(few.jobs(), ElementsAre("green/demo", "red/demo"));
  EXPECT_TRUE(few.view().job({"green", "demo"}).has_value());
  EXPECT_EQ(num_pods(few.view(), "red"), 1u);
  EXPECT_EQ(num_pods(few.view(), "green"), 0u);

  Watching all(server, {});
  EXPECT_THAT(all.jobs(), UnorderedElementsAre("blue/demo", "green/demo", "red/demo"));
  EXPECT_EQ(num_pods(all.view(), "red"), 1u);
}

TEST(ClusterViewTest, IsToldOfChangesInEachNamespace) {
  FakeApiServer server;
  Watching few(server, {"red", "green"});
  EXPECT_THAT(few.jobs(), IsEmpty());
  server.add("trainingjobs", job_in("blue"));
  server.add("trainingjobs", job_in("green"));
  server.add("trainingjobs", job_in("red"));
  Watching::await([&] { return few.jobs().size() == 2; });
  EXPECT_THAT(few.jobs(), ElementsAre("green/demo", "red/demo"));
  EXPECT_THAT(few.woken(), ElementsAre("green/demo", "red/demo"));
  server.erase("trainingjobs", {"green", "demo"});
  Watching::await([&] { return few.jobs().size() == 1; });
  EXPECT_THAT(few.jobs(), ElementsAre("red/demo"));
}

// What one watch has been told says nothing of another's.
TEST(ClusterViewTest, HowFarANamespaceHasComeIsItsOwn) {
  FakeApiServer server;
  Watching few(server, {"red", "green"});
  const std::string version = kube::version_of(server.add("pods", pod_in("red")));
  Watching::await([&] { return few.view().has_seen("red", ChildKind::kPod, version); });
  EXPECT_FALSE(few.view().has_seen("green", ChildKind::kPod, version));
  EXPECT_FALSE(few.view().has_seen("red", ChildKind::kService, version));
}

// Its Role goes with it: an operator that starts anew is refused there for ever.
TEST(ClusterViewTest, ANamespaceThatIsGoneHoldsUpNoOther) {
  FakeApiServer server;
  for (const char* ns : {"red", "gone"}) server.add("trainingjobs", job_in(ns));
  server.forbid("gone");
  Watching few(server, {"red", "gone"}, {"red"});
  EXPECT_TRUE(few.view().has_synced("red"));
  EXPECT_FALSE(few.view().has_synced("gone"));
  EXPECT_THAT(few.jobs(), ElementsAre("red/demo"));
  Watching::await([&] { return !few.troubles().empty(); });
  EXPECT_THAT(few.troubles(), ElementsAre("gone"));

  ProgressPoller nobody(
      {},
      [](const ProgressTarget&) -> common::Result<common::JobProgress> {
        return common::Error{common::ErrorCode::kUnavailable, "no rank answers here", ""};
      },
      [](const kube::ObjectKey&) {});
  ClusterView all(server,
                  {{"red", "gone"}, [](const kube::ObjectKey&) {}, [](const std::string&) {}});
  Watching::await([&] { return all.has_synced(); });
  Reconciler reconciler(server, all, nobody, {{}, api::wall_clock});
  const common::Result<Outcome> waits = reconciler.reconcile({"gone", "demo"});
  ASSERT_TRUE(waits.has_value());
  EXPECT_TRUE(waits->requeue_after.has_value());
  EXPECT_THAT(server.writes(), IsEmpty());
  EXPECT_TRUE(reconciler.reconcile({"red", "demo"}).has_value());
  EXPECT_FALSE(server.writes().empty());
}

TEST(ClusterViewTest, ANodeThatIsLostWakesTheJobsOfEveryNamespaceThatHavePodsOnIt) {
  FakeApiServer server;
  server.add("nodes", node("True"));
  for (const char* ns : {"red", "green", "blue"}) {
    server.add("trainingjobs", job_in(ns));
    if (std::string(ns) != "green") server.add("pods", pod_in(ns));
  }
  server.add("trainingjobs", job_in("grey"));
  server.add("pods", pod_in("grey"));
  Watching few(server, {"red", "green", "grey"});
  few.forget_woken();
  server.edit("nodes", {"", "node-1"}, [](json& now) { now["status"] = node("False")["status"]; });
  Watching::await([&] { return few.woken().size() >= 2; });
  EXPECT_THAT(few.woken(), ElementsAre("grey/demo", "red/demo"));
}

}  // namespace
}  // namespace lockstep::control

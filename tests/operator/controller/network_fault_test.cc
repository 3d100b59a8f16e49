// The whole operator behind a proxy that does what networks and servers do on bad days, with the
// API server in memory: what tests/cluster/faults_test.cc holds on a real one, small enough for the
// sanitizers.
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include <gtest/gtest.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "operator/controller/controller.h"
#include "tests/operator/controller/fake_api_server.h"
#include "tests/operator/controller/served_api.h"
#include "tests/support/fault_proxy/fault_cases.h"

namespace lockstep::control {
namespace {

using nlohmann::json;
using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::Fault;
using testing::FaultCase;
using Clock = std::chrono::steady_clock;

constexpr milliseconds kFaultLength{2000};  // informers come again after 0.8 to 1.6 s
constexpr milliseconds kRestLength{500};
constexpr seconds kLimit{120};  // of liveness only
const kube::ObjectKey kJob{"default", "demo"};

json own_job() {
  return {{"apiVersion", "lockstep.dev/v1alpha1"},
          {"kind", "TrainingJob"},
          {"metadata", {{"name", kJob.name}, {"namespace", kJob.ns}, {"generation", 1}}},
          {"spec", {{"ranks", 2}, {"image", "none:1"}, {"command", {"sleep"}}}}};
}

// Rank 1 of the first attempt fails at once, rank 0 hangs; the second attempt succeeds.
json next_status(const std::string& pod, const std::string& phase) {
  if (phase == "Pending") return {{"phase", "Running"}, {"podIP", "127.0.0.1"}};
  if (pod == "demo-0-0") return nullptr;
  const int code = pod == "demo-0-1" ? 1 : 0;
  const json exit = {{"exitCode", code}, {"finishedAt", "2027-01-15T08:00:00Z"}};
  return {{"phase", code == 0 ? "Succeeded" : "Failed"},
          {"containerStatuses", {{{"name", "trainer"}, {"state", {{"terminated", exit}}}}}}};
}

// A cluster in memory with an operator that reaches its API server through a fault proxy.
class FaultyRun {
 public:
  explicit FaultyRun(uint64_t seed) : proxy_(config_of(served_.url()), seed) {
    if (mkdtemp(folder_.data()) == nullptr) throw std::runtime_error("no folder");
    rotate_token("old");
    const json ready = {{"type", "Ready"}, {"status", "True"}};
    server_.add("nodes", {{"metadata", {{"name", "node-1"}, {"namespace", ""}}},
                          {"status", {{"conditions", json::array({ready})}}}});
    kubelet_ = std::jthread([this](const std::stop_token& stop) { run_kubelet(stop); });
    operator_ = std::jthread([this] {
      const common::Result<void> ran = run_controller(options(), stop_signal_);
      EXPECT_TRUE(ran.has_value()) << ran.error().message;
    });
  }

  ~FaultyRun() {
    proxy_.end();
    eventfd_write(stop_signal_, 1);
    operator_.join();
    close(stop_signal_);
    kubelet_.request_stop();
    kubelet_.join();
    std::filesystem::remove_all(folder_);
  }

  testing::FaultProxy& proxy() { return proxy_; }
  FakeApiServer& server() { return server_; }
  void create_job() { server_.add("trainingjobs", own_job()); }
  void rotate_token(const std::string& token) {
    // By renaming, as a kubelet does: a reader sees the one or the other.
    std::ofstream(folder_ + "/next") << token;
    std::filesystem::rename(folder_ + "/next", folder_ + "/token");
  }
  json status() const {
    return server_.object("trainingjobs", kJob)->value("status", json::object());
  }

  // Blocks until `holds`; false after kLimit.
  template <typename Predicate>
  bool await(Predicate holds) {
    const Clock::time_point deadline = Clock::now() + kLimit;
    while (!holds()) {
      if (Clock::now() > deadline) return false;
      std::this_thread::sleep_for(milliseconds(5));
    }
    return true;
  }

  bool comes_to_rest() {
    return await([&] {
      const int64_t writes = proxy_.counts().writes;
      std::this_thread::sleep_for(kRestLength);
      return proxy_.counts().writes == writes;
    });
  }

 private:
  static kube::ClientConfig config_of(const std::string& url) {
    kube::ClientConfig config;
    config.server = url;
    return config;
  }

  ControllerOptions options() const {
    ControllerOptions options;
    options.cluster.server = proxy_.url();
    options.cluster.token_file = folder_ + "/token";
    options.namespaces = {kJob.ns};
    options.listen_address = "127.0.0.1";
    options.port = 0;
    options.num_workers = 2;
    options.request_timeout = seconds(1);
    options.watch_timeout = seconds(1);
    return options;
  }

  void run_kubelet(const std::stop_token& stop) {
    while (!stop.stop_requested()) {
      for (const json& pod : server_.objects("pods")) step(pod);
      std::this_thread::sleep_for(milliseconds(20));
    }
  }

  void step(const json& pod) {
    const kube::ObjectKey key = kube::key_of(pod);
    if (pod["metadata"].contains("deletionTimestamp")) return server_.erase("pods", key);
    const std::string phase = pod.value("status", json::object()).value("phase", "Pending");
    const json status = next_status(key.name, phase);
    if (phase == "Succeeded" || phase == "Failed" || status.is_null()) return;
    try {
      server_.edit("pods", key, [&](json& now) {
        now["spec"]["nodeName"] = "node-1";
        now["status"] = status;
      });
    } catch (const std::out_of_range&) {  // deleted meanwhile
    }
  }

  std::string folder_ = ::testing::TempDir() + "network-fault-XXXXXX";  // of the token
  FakeApiServer server_;
  ServedApi served_{server_};
  testing::FaultProxy proxy_;
  const int stop_signal_ = eventfd(0, EFD_CLOEXEC);  // in place of the signals
  std::jthread kubelet_;
  std::jthread operator_;
};

// The fault from the middle of making the first attempt on.
void disturb_the_beginning(const FaultCase& one, FaultyRun& run) {
  const std::string newer = one.fault == Fault::kUnauthorized ? "newer" : "";
  run.create_job();
  ASSERT_TRUE(run.await([&] { return run.proxy().counts().writes >= 2; }));
  run.proxy().begin(one.fault, newer);
  std::this_thread::sleep_for(kFaultLength);
  if (!newer.empty()) run.rotate_token(newer);
  if (newer.empty()) run.proxy().end();  // the old token stays refused
}

void survive(const FaultCase& one, uint64_t seed) {
  FaultyRun run(seed);
  const Clock::time_point begin = Clock::now();
  if (one.all_the_time) {
    run.proxy().begin(one.fault);
    run.create_job();
  } else {
    disturb_the_beginning(one, run);
  }
  EXPECT_TRUE(run.await([&] { return run.status().value("state", "") == "Succeeded"; }));
  testing::FaultVerdict verdict;
  verdict.status = run.status();
  verdict.fault_seconds = std::chrono::duration<double>(Clock::now() - begin).count();
  verdict.requests_in_fault = run.proxy().counts().in_fault;
  verdict.hit = run.proxy().counts().hit;
  run.proxy().end();
  verdict.came_to_rest = run.comes_to_rest();
  constexpr std::string_view kCreate = "create pods/";
  const std::vector<std::string> writes = run.server().writes();
  for (std::size_t i = 0; i < writes.size(); ++i) {
    if (!writes[i].starts_with(kCreate)) continue;
    verdict.pods[writes[i].substr(kCreate.size())].insert(std::to_string(i));
  }
  verdict.expected_pods = {"demo-0-0", "demo-0-1", "demo-1-0", "demo-1-1"};
  expect_survived(one, verdict);
}

TEST(NetworkFaultTest, AJobComesToItsEndWhateverTheFault) {
  const std::vector<FaultCase> cases = testing::fault_cases(/*with_history=*/false);
  std::vector<std::jthread> runs;  // side by side: they wait most of the time
  runs.reserve(cases.size());
  for (std::size_t i = 0; i < cases.size(); ++i) {
    runs.emplace_back([&cases, i] { survive(cases[i], i + 1); });
  }
}

}  // namespace
}  // namespace lockstep::control

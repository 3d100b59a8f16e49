// The operator's process is killed at every single write of a job's life on a real API server,
// before the request is sent and after it was done but not answered; another one takes over. The
// job must end as undisturbed, with the same objects ever made and deleted, by name, as a watch
// sees them. Needs a process kubelet; LOCKSTEP_TEST_KUBECONFIG, LOCKSTEP_TEST_PODS (the kubelet's
// folder of pods) and LOCKSTEP_TEST_OPERATOR (the operator that dies). Run by the cluster tests.
#include <algorithm>
#include <atomic>
#include <csignal>
#include <fstream>
#include <iostream>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <variant>
#include <vector>

#include <gtest/gtest.h>

#include "operator/kube/client.h"
#include "operator/plan/names.h"
#include "tests/operator/controller/real_server.h"

namespace lockstep::control {
namespace {

using nlohmann::json;

constexpr int kNumLanes = 4;  // crash points tried at once

// What watches saw of the children of each job: every addition and every deletion, by name.
struct Seen {
  std::multiset<std::string> created, deleted;
  bool operator==(const Seen&) const = default;
};

class ChildWatch {
 public:
  ChildWatch(kube::Client& client, const std::string& ns) {
    for (const char* plural : {"pods", "services", "configmaps"}) {
      const kube::ResourcePath path{{"", "v1", plural}, ns, "", ""};
      const auto listed = client.list(path, {}, {});
      const std::string version = std::get<json>(listed)["metadata"]["resourceVersion"];
      threads_.emplace_back([this, &client, path, version](const std::stop_token& stop) {
        std::string since = version;
        while (!stop.stop_requested()) {
          client.stream(path, "watch=true&timeoutSeconds=300&resourceVersion=" + since, stop,
                        [&](std::string_view line) {
                          since = take(path.type.plural, json::parse(line));
                          return true;
                        });
        }
      });
    }
  }
  Seen of(const std::string& job) {
    const std::lock_guard lock(mutex_);
    return seen_[job];
  }

 private:
  std::string take(const std::string& plural, const json& event) {
    const json& metadata = event.at("object").at("metadata");
    const std::string job = metadata.value("labels", json::object()).value(plan::kJobNameLabel, "");
    const std::string name = metadata.at("name");
    // The same names whatever the job is called.
    const std::string child =
        plural + "/job" + (name.size() >= job.size() ? name.substr(job.size()) : name);
    const std::lock_guard lock(mutex_);
    if (event["type"] == "ADDED") seen_[job].created.insert(child);
    if (event["type"] == "DELETED") seen_[job].deleted.insert(child);
    return metadata.at("resourceVersion");
  }

  std::mutex mutex_;
  std::map<std::string, Seen> seen_;
  std::vector<std::jthread> threads_;  // last: they use the above
};

// A namespace, and what a watch sees in it.
class Lane {
 public:
  Lane()
      : client_(connect_to_real_server()), ns_(*client_, "crash"), watch_(*client_, ns_.name()) {}

  kube::Client& client() { return *client_; }
  const std::string& ns() const { return ns_.name(); }
  ChildWatch& watch() { return watch_; }

 private:
  std::unique_ptr<kube::Client> client_;
  TestNamespace ns_;
  ChildWatch watch_;
};

struct Scenario {
  const char* name;
  const char* script;         // of every rank, for sh
  bool kills_rank_1 = false;  // of the first attempt, once all run
  int attempt = 0, restarts = 0;
  std::size_t num_created = 5, num_deleted = 0;
  int ranks = 3, ranks_per_pod = 1;
};

struct End {
  json status;
  Seen seen;
};

// One life of a job, with the operator killed at a point of it.
class Life {
 public:
  Life(Lane& lane, const Scenario& scenario, std::string job)
      : lane_(lane), scenario_(scenario), job_(std::move(job)) {}

  // True if the operator came to that point.
  bool run(int call, bool after, const Seen* expected, End& end) {
    create();
    auto process = std::make_unique<OperatorProcess>(lane_.ns(), call, after);
    bool has_died = false;
    bool has_killed = !scenario_.kills_rank_1;
    await("end of " + job_, [&] {
      if (!has_died && process->has_died()) {
        has_died = true;
        process = std::make_unique<OperatorProcess>(lane_.ns(), 0, false);
      }
      const json status = read_status();
      if (!has_killed && status.value("state", "") == "Running") has_killed = kill_rank_1();
      return holds(status, "Succeeded") || holds(status, "Failed");
    });
    end.status = summary(read_status());
    if (expected != nullptr) {  // the last deletions may be under way
      await("the same objects of " + job_, [&] { return lane_.watch().of(job_) == *expected; });
    } else {
      await("objects of " + job_, [&] {
        const Seen seen = lane_.watch().of(job_);
        return seen.created.size() == scenario_.num_created &&
               seen.deleted.size() == scenario_.num_deleted;
      });
    }
    end.seen = lane_.watch().of(job_);
    process.reset();
    lane_.client().remove({kTrainingJobs, lane_.ns(), job_, ""},
                          {.grace_period_seconds = {}, .propagation = "Background"});
    return has_died;
  }

 private:
  void create() {
    const json body = {{"apiVersion", "lockstep.dev/v1alpha1"},
                       {"kind", "TrainingJob"},
                       {"metadata", {{"name", job_}}},
                       {"spec",
                        {{"ranks", scenario_.ranks},
                         {"ranksPerPod", scenario_.ranks_per_pod},
                         {"command", {"/bin/sh", "-c", scenario_.script}}}}};
    const auto created = lane_.client().create({kTrainingJobs, lane_.ns(), "", ""}, body);
    if (const auto* error = std::get_if<kube::ApiError>(&created)) {
      throw std::runtime_error(error->error.message);
    }
  }
  json read_status() {
    const auto job = lane_.client().get({kTrainingJobs, lane_.ns(), job_, ""});
    const auto* found = std::get_if<json>(&job);
    return found == nullptr ? json::object() : found->value("status", json::object());
  }
  static bool holds(const json& status, const std::string& type) {
    for (const json& condition : status.value("conditions", json::array())) {
      if (condition["type"] == type) return condition["status"] == "True";
    }
    return false;
  }
  // As the out-of-memory killer does.
  bool kill_rank_1() {
    pid_t pid = 0;
    std::ifstream(required_env("LOCKSTEP_TEST_PODS") + "/" + job_ + "-0-1/pid") >> pid;
    return pid > 0 && kill(pid, SIGKILL) == 0;
  }
  // Whether Scheduled or Running was ever seen as true depends on who was alive when.
  static json summary(const json& status) {
    json text = {{"state", status.value("state", "")},
                 {"attempt", status.value("attempt", 0)},
                 {"restarts", status.value("restarts", 0)},
                 {"ranks", status.value("ranks", json())},
                 {"budget", status.value("budget", json())}};
    const json failure = status.value("firstFailure", json::object());
    for (const char* field : {"rank", "attempt", "exitCode", "reason"}) {
      text["firstFailure"][field] = failure.value(field, json());
    }
    return text;
  }

  Lane& lane_;
  const Scenario scenario_;
  const std::string job_;
};

class RealCrashTest : public testing::TestWithParam<Scenario> {};

TEST_P(RealCrashTest, EveryCrashPointEndsLikeAnUndisturbedRun) {
  const Scenario& scenario = GetParam();
  std::vector<std::unique_ptr<Lane>> lanes;
  for (int i = 0; i < kNumLanes; ++i) lanes.push_back(std::make_unique<Lane>());
  End undisturbed;
  ASSERT_FALSE(Life(*lanes[0], scenario, "calm").run(0, false, nullptr, undisturbed));
  EXPECT_EQ(undisturbed.status["attempt"], scenario.attempt);
  EXPECT_EQ(undisturbed.status["restarts"], scenario.restarts);

  // Lanes take the next point until there are no more: the writes of a life differ by a few, as the
  // kubelet is faster or slower.
  std::atomic<int> next{0}, num_points{0};
  std::atomic<int> first_missed{1000};
  const auto try_points = [&](Lane& lane) {
    try {
      while (true) {
        const int point = next++;
        const int call = 1 + point / 2;
        const bool after = point % 2 == 1;
        if (call > first_missed + 2) return;
        End end;
        const std::string job =
            std::string("c").append(std::to_string(call)).append(after ? "a" : "b");
        SCOPED_TRACE(job);  // the write; before it is sent, or after it was done
        if (!Life(lane, scenario, job).run(call, after, &undisturbed.seen, end)) {
          first_missed = std::min<int>(first_missed, call);
        } else {
          ++num_points;
        }
        EXPECT_EQ(end.status, undisturbed.status);
      }
    } catch (const std::exception& error) {
      ADD_FAILURE() << error.what();
    }
  };
  {
    std::vector<std::jthread> threads;
    threads.reserve(lanes.size());
    for (auto& lane : lanes) threads.emplace_back([&try_points, &lane] { try_points(*lane); });
  }
  std::cout << scenario.name << ": " << num_points << " crash points on the real server, "
            << undisturbed.seen.created.size() << " objects created, "
            << undisturbed.seen.deleted.size() << " deleted\n";
  EXPECT_GE(num_points, 10);
}

INSTANTIATE_TEST_SUITE_P(
    Scenarios, RealCrashTest,
    testing::Values(Scenario{.name = "CreateAndSucceedWithTwoRanksInAPod",
                             .script = "exit 0",
                             .num_created = 5,
                             .ranks = 6,
                             .ranks_per_pod = 2},
                    Scenario{.name = "RankFailureAndRestart",
                             .script = "[ $LOCKSTEP_ATTEMPT = 1 ] || exec sleep 600",
                             .kills_rank_1 = true,
                             .attempt = 1,
                             .restarts = 1,
                             .num_created = 9,
                             .num_deleted = 3}),
    [](const auto& param) { return std::string(param.param.name); });

}  // namespace
}  // namespace lockstep::control

// A cluster in one process: the fake API server, an operator that can be killed, a kubelet that
// follows a script, and a clock that jumps.
#pragma once

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "operator/controller/cluster_view.h"
#include "operator/controller/progress_poller.h"
#include "operator/controller/reconciler.h"
#include "tests/operator/controller/fake_api_server.h"

namespace lockstep::control {

// A TrainingJob "default/demo" of `ranks` ranks that the planner accepts.
nlohmann::json demo_job(int ranks);
inline const kube::ObjectKey kDemo{"default", "demo"};

// How a pod that runs goes on: "Running" (it stays), "Succeeded" or "Failed".
using PodScript = std::function<std::string(const std::string& pod)>;

class OperatorRun {
 public:
  // `fetch` answers for rank 0; by default nobody does.
  explicit OperatorRun(PodScript script, ProgressPoller::Fetch fetch = {});

  FakeApiServer& server() { return server_; }
  // A new operator process in place of the old one, with stores that have synced.
  void start_operator();
  // One reconcile of the demo job after all watches have told all; the operator must run.
  common::Result<Outcome> reconcile();
  // Reconciles, lets the kubelet act and the clock jump, and starts a new operator after a crash,
  // until nothing changes any more. Fails the test if that takes too long.
  void run_to_rest();
  // The same, until the job is as `holds` says.
  void run_until(const std::function<bool(const nlohmann::json& job)>& holds);
  // Reconciles until that alone changes nothing any more; false if the operator crashed.
  bool settle();
  // Every pod makes one step. False if nothing was left to do.
  bool step_kubelet();
  // Blocks until rank 0 has told the operator something new.
  void await_progress() { num_news_.wait(0); }
  // The job as the server has it.
  nlohmann::json job() const;
  int num_crashes() const { return num_crashes_; }
  void advance(std::chrono::seconds by) { now_ += by; }

 private:
  struct Process {
    explicit Process(OperatorRun& run);
    ClusterView view;
    ProgressPoller poller;
    Reconciler reconciler;
  };

  const PodScript script_;
  const ProgressPoller::Fetch fetch_;
  std::atomic<int> num_news_ = 0;
  FakeApiServer server_;
  api::Time now_{std::chrono::seconds(1'800'000'000)};
  std::optional<std::chrono::milliseconds> requeue_after_;
  int num_crashes_ = 0;
  std::unique_ptr<Process> process_;  // last: it uses all of the above
};

// What a run came to, without times, versions and UIDs.
struct EndState {
  nlohmann::json status;  // of the job; null if it is gone
  std::set<std::string> left;
  std::multiset<std::string> created, deleted;  // objects, events left out
  std::multiset<std::string> events;
};
EndState end_state(OperatorRun& run);

}  // namespace lockstep::control

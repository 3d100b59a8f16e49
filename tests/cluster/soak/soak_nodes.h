// Scheduler, kubelets and collector of pods of a cluster whose nodes only pretend: pods get nodes,
// run for some seconds and succeed, unless somebody has them fail, deletes them, or takes their
// node away. No process runs.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include <nlohmann/json.hpp>

#include "operator/kube/client.h"
#include "operator/kube/mutex.h"
#include "tests/cluster/soak/soak_watch.h"

namespace lockstep::soak {

// The schedulerName of its pods.
inline constexpr const char* kSoakScheduler = "soak";

class SoakNodes {
 public:
  // `client` outlives this. Names of nodes begin with `ns`.
  SoakNodes(kube::Client& client, std::string ns, uint64_t seed);
  ~SoakNodes();
  SoakNodes(const SoakNodes&) = delete;
  SoakNodes& operator=(const SoakNodes&) = delete;

  // Where confirmations and losses are noted; from now on the nodes are at work.
  void begin(SoakWatch& watch);
  // They stop, and nothing is noted any more.
  void end();
  void on_pod(const nlohmann::json& event);

  // Of a random pod that runs; the UID of its owner, or nothing if none does. What was asked for is
  // done soon after.
  std::optional<std::string> fail_some_pod();
  std::optional<std::string> evict_some_pod();   // its node does
  std::optional<std::string> delete_some_pod();  // a user does
  // A node goes with all that ran there, and another comes.
  void lose_some_node();

 private:
  using Clock = std::chrono::steady_clock;
  enum class Stage { kNew, kBound, kRunning, kEnded };
  struct Pod {
    std::string name, owner, node;
    Stage stage = Stage::kNew;
    bool is_deleting = false;
    Clock::time_point due;  // of its next step
  };
  using Deed = std::function<void()>;

  void work(const std::stop_token& stop);
  void add_node();
  // Does what is due; when to look again. Called on the thread of work() alone.
  void step(const std::string& uid);
  void bind(const std::string& uid, const Pod& pod);
  bool report(const std::string& uid, const Pod& pod, const nlohmann::json& status);
  void confirm(const std::string& uid, const Pod& pod);
  void tell_ready(const std::string& node);
  std::optional<std::string> pick_running(const std::function<void(const std::string& uid)>& deed);
  // Says that the processes of a running pod have ended; nothing if it does not run.
  std::optional<Pod> end_running(const std::string& uid);
  std::chrono::milliseconds some_time(int64_t least_ms, int64_t most_ms);

  kube::Client& client_;
  const std::string ns_;
  SoakWatch* watch_ = nullptr;  // set before the thread begins
  kube::Mutex mutex_;
  std::condition_variable_any changed_;
  std::mt19937_64 random_ GUARDED_BY(mutex_);
  std::map<std::string, Pod> pods_ GUARDED_BY(mutex_);  // by UID
  std::vector<Deed> deeds_ GUARDED_BY(mutex_);          // for the thread
  std::set<std::string> nodes_ GUARDED_BY(mutex_);
  int next_node_ = 0;
  Clock::time_point next_heartbeat_{};
  std::jthread thread_;
};

}  // namespace lockstep::soak

// One life of a job on a real API server, with the operator's process killed at a point of it, and
// everybody else who has a part in it: the user, the scheduler, and nodes that go.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include <nlohmann/json.hpp>

#include "operator/kube/client.h"
#include "tests/operator/controller/real_server.h"

namespace lockstep::control {

// What watches saw of the children of a job: every addition and every deletion, by name.
struct Seen {
  std::multiset<std::string> created, deleted;
  bool operator==(const Seen&) const = default;
};

class ChildWatch {
 public:
  // Watches the namespace from now on. `client` outlives this.
  ChildWatch(kube::Client& client, const std::string& ns);
  // Names are the same whatever the job is called.
  Seen of(const std::string& job);

 private:
  std::string take(const std::string& plural, const nlohmann::json& event);

  std::mutex mutex_;
  std::map<std::string, Seen> seen_;
  std::vector<std::jthread> threads_;  // last: they use the above
};

// A namespace, and what a watch sees in it.
class Lane {
 public:
  Lane();

  kube::Client& client() { return *client_; }
  const std::string& ns() const { return ns_.name(); }
  ChildWatch& watch() { return watch_; }

 private:
  std::unique_ptr<kube::Client> client_;
  TestNamespace ns_;
  ChildWatch watch_;
};

class Life;

// What somebody does once the job is in a state.
struct Deed {
  const char* state;
  bool (*act)(Life& life);  // false: it could not be done yet
};
bool kill_rank_1(Life& life);  // its process, as the out-of-memory killer does
bool evict_rank_1(Life& life);
bool lose_node_of_rank_1(Life& life);  // with `has_doomed_node`
bool suspend(Life& life);
bool resume(Life& life);
bool scale_to_two(Life& life);

struct Scenario {
  const char* name;
  const char* script;                              // of every rank, for sh
  nlohmann::json spec = nlohmann::json::object();  // on top of three ranks
  std::vector<Deed> deeds{};                       // in order, each once
  bool user_deletes = false;                       // the job, upon its first pod
  bool has_doomed_node = false;  // rank 1 of the first attempt runs on a node of its own
  // What it comes to undisturbed; an empty state: the job is gone.
  const char* state = "Succeeded";
  int attempt = 0, restarts = 0;
  std::size_t num_created = 5, num_deleted = 0;
};

struct End {
  nlohmann::json status;
  Seen seen;
};

class Life {
 public:
  // `lane` and `scenario` outlive this. `job` is a name that was not used in the lane.
  Life(Lane& lane, const Scenario& scenario, std::string job);
  ~Life();
  Life(const Life&) = delete;
  Life& operator=(const Life&) = delete;

  // Runs the job until its end, the operator being killed at its `call`-th write (0 = never), with
  // `after`: once that is done. Waits for the objects of `expected`, or for the scenario's numbers
  // if that is null. True if the operator came to that point. Throws if it takes too long.
  bool run(int call, bool after, const Seen* expected, End& end);

  // --- for deeds
  kube::Client& client() { return lane_.client(); }
  kube::ResourcePath job_path() const;
  // The pod of rank 1 of the first attempt.
  kube::ResourcePath pod_path(const std::string& subresource = "") const;
  std::string doomed_node() const;

 private:
  void create();
  void create_doomed_node();
  // Does what is left to do; true once the job has ended.
  bool step();
  void schedule();
  bool is_all_made_and_gone();
  void await_objects(const Seen* expected);

  Lane& lane_;
  const Scenario& scenario_;
  const std::string job_;
  std::size_t num_done_ = 0;  // deeds
};

}  // namespace lockstep::control

// Writes down what the API server tells of a namespace.
#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include <nlohmann/json.hpp>

#include "operator/kube/client.h"
#include "operator/kube/mutex.h"
#include "tests/cluster/soak/soak_rules.h"

namespace lockstep::soak {

// The object of an answer. Throws if the call failed.
nlohmann::json value_of(const kube::ApiResult<nlohmann::json>& answer);

class SoakWatch {
 public:
  using OnPod = std::function<void(const nlohmann::json& event)>;
  // Watches from now on; `client` outlives this. `on_pod` is called on the thread of the pods'
  // watch, once the event is written down.
  SoakWatch(kube::Client& client, std::string ns, OnPod on_pod);

  // What was seen so far, and the number of events in it.
  History history() const;
  std::size_t num_events() const;
  // The newest record of each job that is there.
  std::vector<JobRecord> jobs() const;
  // Why not all was seen; empty = it was.
  std::string trouble() const;
  // A cause for this job's next attempt.
  void note_disturbance(const std::string& job_uid);
  void note_confirmation(const std::string& pod_uid);
  void note_lost_node(const std::string& node);

 private:
  void follow(const kube::ResourceType& type, const std::string& since,
              const std::stop_token& stop);
  bool note_trouble(const std::string& what);  // false: the stream is over
  void write_down(const std::string& plural, const nlohmann::json& event);

  kube::Client& client_;
  const std::string ns_;
  const OnPod on_pod_;
  mutable kube::Mutex mutex_;
  History history_ GUARDED_BY(mutex_);
  std::string trouble_ GUARDED_BY(mutex_);
  std::map<std::string, JobRecord> jobs_ GUARDED_BY(mutex_);  // by UID
  std::vector<std::jthread> threads_;                         // last: they use the above
};

}  // namespace lockstep::soak

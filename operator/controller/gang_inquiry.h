// Why a scheduler that knows gangs lets a job wait, in its own words.
#pragma once

#include <chrono>
#include <map>
#include <string>

#include <nlohmann/json.hpp>

#include "operator/api/training_job.h"
#include "operator/kube/client.h"
#include "operator/kube/mutex.h"
#include "operator/kube/object_key.h"

namespace lockstep::control {

struct GangWord {
  std::string text;         // empty = nothing to tell
  bool is_missing = false;  // the PodGroup is not there
};

// What the schedulers of all jobs said last. Safe from several threads.
class GangInquiry {
 public:
  // How long an answer holds: a job that waits is looked at twice as seldom (plan/pod_group.cc).
  static constexpr std::chrono::seconds kAnswerHolds{15};

  // `client` outlives the inquiry.
  explicit GangInquiry(kube::Client& client) : client_(client) {}

  // What the PodGroup of a job says that waits for its scheduler; nothing for any other job. Asks
  // if the last answer about this group is older than kAnswerHolds: blocks for one request then.
  GangWord ask(const api::TrainingJob& job, api::Time now);
  void forget(const kube::ObjectKey& key);

 private:
  struct Answer {
    std::string pod_group;
    api::Time at;
    GangWord word;
  };

  kube::Client& client_;
  mutable kube::Mutex mutex_;
  std::map<kube::ObjectKey, Answer> answers_ GUARDED_BY(mutex_);
};

// What a PodGroup of any of our schedulers says of its wait; empty if it says nothing. Pure; never
// throws.
std::string explain_pod_group(const nlohmann::json& pod_group);

}  // namespace lockstep::control

// Why a queue lets a job wait, in Kueue's own words.
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

// What the queues of all jobs answered last. Safe from several threads.
class QueueInquiry {
 public:
  // How long an answer holds: a job that waits is looked at twice as seldom (plan/plan.cc).
  static constexpr std::chrono::seconds kAnswerHolds{15};

  // `client` outlives the inquiry.
  explicit QueueInquiry(kube::Client& client) : client_(client) {}

  // What the Workload of the job's pod group says, and where there is none, what is wrong with the
  // queue. Empty for a job that waits in no queue, or if there is nothing to tell. Asks if the last
  // answer about this group is older than kAnswerHolds: blocks for up to four requests then.
  std::string ask(const api::TrainingJob& job, api::Time now);
  void forget(const kube::ObjectKey& key);

 private:
  struct Answer {
    std::string pod_group;
    api::Time at;
    std::string word;
  };

  kube::Client& client_;
  mutable kube::Mutex mutex_;
  std::map<kube::ObjectKey, Answer> answers_ GUARDED_BY(mutex_);
};

// What a Workload says of its admission; empty if it was admitted. Pure; never throws.
std::string explain_workload(const nlohmann::json& workload);

}  // namespace lockstep::control

// Which pod groups of schedulers the API server serves, found by API discovery.
#pragma once

#include <chrono>
#include <optional>
#include <utility>

#include "operator/api/training_job.h"
#include "operator/kube/client.h"
#include "operator/kube/mutex.h"
#include "operator/plan/plan.h"
#include "runtime/common/log.h"

namespace lockstep::control {

// What discovery answered last, for all jobs. Safe from several threads.
class GangDiscovery {
 public:
  // How long an answer holds, and how soon a discovery that failed is tried again.
  static constexpr std::chrono::seconds kAnswerHolds{60};
  static constexpr std::chrono::seconds kRetry{5};

  // `client` outlives the discovery.
  explicit GangDiscovery(kube::Client& client) : client_(client) {}

  // For a job that may get pods next, what is served; is_known is false if nobody ever answered,
  // and for every other job, for which nothing is asked. Blocks for up to four requests if the last
  // answer is older than kAnswerHolds; while one caller asks, others go by the older answer.
  plan::GangApis ask(const api::TrainingJob& job, api::Time now);

 private:
  // Takes over what was found, if anything; what is known now, and whether that is news.
  std::pair<plan::GangApis, bool> learn(const std::optional<plan::GangApis>& found, api::Time now);

  kube::Client& client_;
  const common::Log log_;
  mutable kube::Mutex mutex_;
  std::optional<plan::GangApis> known_ GUARDED_BY(mutex_);
  api::Time ask_again_ GUARDED_BY(mutex_){};
};

}  // namespace lockstep::control

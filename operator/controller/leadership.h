// Leader election of operators: the elector on a connection of its own, with metrics, log lines and
// events.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "operator/controller/controller_metrics.h"
#include "operator/controller/health.h"
#include "operator/kube/client_config.h"
#include "operator/kube/leader_elector.h"
#include "runtime/common/log.h"
#include "runtime/common/result.h"

namespace lockstep::control {

struct LeadershipOptions {
  bool enabled = false;
  kube::ElectionSettings settings;  // an empty identity is made of the host's name
  std::string ns;                   // of the Lease; empty: the one of the credentials
  std::string name = "lockstep-operator";
};

class Leadership {
 public:
  // Nothing is sent before start(). kInvalidArgument: settings that cannot work, credentials that
  // cannot be used. `metrics` outlives this.
  static common::Result<std::unique_ptr<Leadership>> make(const kube::ClientConfig& cluster,
                                                          LeadershipOptions options,
                                                          ControllerMetrics& metrics);

  // Contends from now on.
  void start();
  // Readable when news() has changed. Only after start().
  int news_fd() const { return elector_->news_fd(); }
  // Takes the news: whether this process waits, leads, or has lost. Tells it in log, metrics and an
  // event.
  kube::LeaderElector::State news();
  std::string why_lost() const { return elector_->why_lost(); }

  // True while this process may write. Safe from any thread.
  bool leads() const;

  // Asked before every write, and counts what it refuses; false before start(). Safe from any
  // thread.
  bool may_write();

  // Hands the lead on, once nothing of this process writes any more; blocks for two calls.
  void release();

  // Safe from any thread.
  std::optional<Vitals::Election> vitals() const;

 private:
  Leadership(std::unique_ptr<kube::Client> client, LeadershipOptions options,
             ControllerMetrics& metrics);
  void emit(const std::string& what);

  const std::unique_ptr<kube::Client> client_;
  const LeadershipOptions options_;
  ControllerMetrics& metrics_;
  const common::Log log_;
  kube::LeaderElector::State told_ = kube::LeaderElector::State::kWaiting;
  mutable kube::Mutex mutex_;
  bool has_started_ GUARDED_BY(mutex_) = false;
  std::unique_ptr<kube::LeaderElector> elector_;  // last: its thread uses the rest
};

}  // namespace lockstep::control

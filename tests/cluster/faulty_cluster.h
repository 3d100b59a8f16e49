// A namespace of the real API server with a job, and an operator that reaches the server through a
// fault proxy. The test itself, the garbage collector and the kubelet reach it straight.
#pragma once

#include <chrono>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <thread>

#include <nlohmann/json.hpp>

#include "operator/kube/client.h"
#include "operator/kube/client_config.h"
#include "operator/kube/mutex.h"
#include "tests/support/fault_proxy/fault_proxy.h"

namespace lockstep::testing {

class FaultyCluster {
 public:
  // The job is called `job`, and the namespace too, with the time. Throws if the server cannot be
  // used.
  FaultyCluster(const std::string& job, uint64_t seed);
  // Ends the operator and deletes the namespace.
  ~FaultyCluster();
  FaultyCluster(const FaultyCluster&) = delete;
  FaultyCluster& operator=(const FaultyCluster&) = delete;

  FaultProxy& proxy() { return *proxy_; }
  void start_operator();
  void restart_operator();

  // Two ranks: in the first attempt rank 1 fails at once and rank 0 hangs, the second succeeds
  // after some seconds.
  void create_job();
  // A newer token of the operator's service account; rotate_token() puts it into its file.
  std::string new_token();
  void rotate_token(const std::string& token);

  // The newest resource version.
  std::string version();
  // The names of the pods of an attempt.
  std::set<std::string> gang(int attempt) const;
  // Blocks until all these pods have been seen; false after kLimit.
  bool await_pods(const std::set<std::string>& names);
  // Blocks until the operator has asked for that many writes; false after kLimit.
  bool await_writes(int64_t count);
  // Blocks until the job has succeeded or failed, or kLimit; its status.
  nlohmann::json await_end();
  // Blocks until the operator has written nothing for `length`; false after kLimit.
  bool comes_to_rest(std::chrono::seconds length);
  // The UIDs of every pod that ever was, by name.
  std::map<std::string, std::set<std::string>> pods_ever() const;

 private:
  static constexpr std::chrono::seconds kLimit{180};  // of liveness only

  void follow_pods(const std::stop_token& stop, const std::string& since);

  const std::string job_;
  const std::string ns_;
  std::string folder_;  // of the token
  kube::ClientConfig admin_;
  std::unique_ptr<kube::Client> client_;
  std::unique_ptr<FaultProxy> proxy_;
  mutable kube::Mutex mutex_;
  std::map<std::string, std::set<std::string>> pods_ GUARDED_BY(mutex_);
  int stop_signal_ = -1;  // an eventfd in place of the signals
  std::jthread operator_;
  std::jthread pod_watch_;
};

}  // namespace lockstep::testing

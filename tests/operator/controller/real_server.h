// What the tests against a real API server share: a client with the administrator's rights, a
// namespace of their own, and operators as processes.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include <sys/types.h>

#include "operator/kube/client.h"

namespace lockstep::control {

inline const kube::ResourceType kTrainingJobs{"lockstep.dev", "v1alpha1", "trainingjobs"};

// Throws if the variable is not set.
std::string required_env(const char* name);

// Every how manieth case a test takes of those that are many and alike: LOCKSTEP_CASE_STRIDE, or
// all.
int case_stride();

// A client of the server that LOCKSTEP_TEST_KUBECONFIG names. Throws if there is none.
std::unique_ptr<kube::Client> connect_to_real_server();

// Blocks until `holds`; throws after two minutes, a limit of liveness only.
void await(const std::string& what, const std::function<bool()>& holds);

// A namespace in which pods can be created; deleted with this, without waiting.
class TestNamespace {
 public:
  // `client` outlives the namespace.
  TestNamespace(kube::Client& client, const std::string& prefix);
  ~TestNamespace();
  TestNamespace(const TestNamespace&) = delete;
  TestNamespace& operator=(const TestNamespace&) = delete;

  const std::string& name() const { return name_; }

 private:
  kube::Client& client_;
  const std::string name_;
};

// The program that LOCKSTEP_TEST_OPERATOR names (dying_operator.cc), on one namespace.
class OperatorProcess {
 public:
  struct Options {
    int call = 0;                         // the write at which it dies; 0 = never
    bool after = false;                   // once that is done, instead of before it is sent
    bool deletes_upon_first_pod = false;  // a job, as a user who has changed her mind
  };
  OperatorProcess(const std::string& ns, const Options& options);
  ~OperatorProcess();  // kills it
  OperatorProcess(const OperatorProcess&) = delete;
  OperatorProcess& operator=(const OperatorProcess&) = delete;

  // Throws if it ended otherwise than by a signal.
  bool has_died();

 private:
  pid_t pid_ = -1;
  bool is_reaped_ = false;
};

}  // namespace lockstep::control

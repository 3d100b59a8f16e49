// Ranks of this machine without a job: processes forked from this one.
#pragma once

#include <chrono>
#include <functional>
#include <string>

#include "runtime/comm/collective.h"
#include "runtime/common/train_config.h"

namespace lockstep::runtime {

struct LocalRanksOptions {
  int num_ranks = 1;
  common::CommunicationConfig::Backend backend = common::CommunicationConfig::Backend::kAuto;
  std::chrono::seconds timeout{60};
  std::string shm_folder = "/dev/shm";
  std::string network_interface{};
};

// Forks the ranks, connects them over loopback and calls `body` in each. Returns 0 if it returned
// in all of them; else tells on standard error which rank failed first and why, ends the others,
// and returns that rank's exit code (128 + signal if a signal ended it). A rank that only lost its
// peer is not the cause if another one has a failure of its own. SIGINT and SIGTERM end all ranks.
//   name: of the verb, for messages.
// Precondition: this process has one thread and no children. Ranks end without unwinding, and with
// this process.
int run_local_ranks(const std::string& name, const LocalRanksOptions& options,
                    const std::function<void(Collective&)>& body);

}  // namespace lockstep::runtime

// Where the ranks of a job meet: one factory that turns an address into a Collective.
#pragma once

#include <chrono>
#include <memory>
#include <stdexcept>
#include <string>

#include "runtime/comm/collective.h"
#include "runtime/comm/collective_observer.h"
#include "runtime/common/train_config.h"

namespace lockstep::runtime {

// Rank 0 cannot listen because another process holds the port. `what()` names address and port.
class PortInUseError : public std::runtime_error {
  using std::runtime_error::runtime_error;
};
// The ranks did not all meet within the timeout. `what()` names the missing ranks where known.
class RendezvousTimeoutError : public std::runtime_error {
  using std::runtime_error::runtime_error;
};

// The interface that the user named is none of this machine's. `what()` names those that are.
class InterfaceNotFoundError : public BackendUnavailableError {
  using BackendUnavailableError::BackendUnavailableError;
};

// The library that holds a backend cannot be loaded. `what()` names it and why.
class BackendLibraryError : public BackendUnavailableError {
  using BackendUnavailableError::BackendUnavailableError;
};

struct RendezvousOptions {
  int rank = 0;
  int world_size = 1;
  std::string master_addr;  // host name or address of rank 0
  int master_port = 0;
  int attempt = 0;  // ranks of different attempts never meet
  common::CommunicationConfig::Backend backend = common::CommunicationConfig::Backend::kAuto;
  std::chrono::milliseconds timeout{600'000};  // of the meeting and of every collective after it
  std::string shm_folder = "/dev/shm";  // memory that the ranks of one host, and no others, share
  // Whose address peers dial; empty: that of the route to the master.
  std::string network_interface{};
  // Told of all collectives; must outlive the result. A world of one rank never waits and tells
  // nothing. Null: nobody is told.
  CollectiveObserver* observer = nullptr;
};

// Meets the other ranks at master_addr:master_port, where rank 0 listens, and returns the backend
// that all of them can use: shared memory if every rank can open the segment that rank 0 made, else
// both shared memory and Gloo if group_hosts() finds two levels, else Gloo. kSharedMemory and kGloo
// force one. A world of one rank needs no address.
// Blocks up to `timeout`, and as long again while Gloo connects. Every rank of the attempt must
// call it once. Sets SIGPIPE to be ignored if it has its default action, or a write to a rank that
// died would end this one without a word. Throws PortInUseError, RendezvousTimeoutError,
// BackendUnavailableError, BackendLibraryError, InterfaceNotFoundError, or PeerLostError if rank 0
// goes away during the meeting.
std::unique_ptr<Collective> connect(const RendezvousOptions& options);

}  // namespace lockstep::runtime

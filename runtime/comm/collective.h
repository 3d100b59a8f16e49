// The verbs that ranks speak. Issued in the same order on every rank; never blocking the caller.
// Backends: Gloo (c10d), shared memory of one host, and both: inside hosts and across them. They
// only move bytes: every sum is done by the caller in a fixed order, so all give the same bits.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>

namespace lockstep::runtime {

// Another rank went away. `what()` names the collective, and the rank where it is known.
class PeerLostError : public std::runtime_error {
  using std::runtime_error::runtime_error;
};
// A peer is there but did not arrive within the timeout.
class CollectiveTimeoutError : public std::runtime_error {
  using std::runtime_error::runtime_error;
};

// The backend that was asked for cannot serve these ranks.
class BackendUnavailableError : public std::runtime_error {
  using std::runtime_error::runtime_error;
};

// A collective under way. wait() blocks until the buffers are final; throws PeerLostError or
// CollectiveTimeoutError, after which the Collective is unusable. Must be waited for or destroyed
// before its buffers die; the destructor waits and swallows errors.
class Pending {
 public:
  virtual ~Pending() = default;
  virtual void wait() = 0;
};
using PendingPtr = std::unique_ptr<Pending>;

// What carries the bytes of a Collective.
struct Topology {
  std::string backend;     // "gloo" | "shared-memory" | "shared-memory+gloo" | "single"
  int ranks_per_host = 1;  // L: ranks [h L, (h+1) L) reach each other without a network
  std::string reason;      // why it is this backend, for people; may be empty
};

// Who takes part in an operation. With one host or one rank per host it comes to kWorld, or to a
// copy.
enum class Reach {
  kWorld,
  kInside,  // the ranks of this rank's host, numbered in their order
  kAcross,  // the ranks that have this one's place in their hosts, numbered by host
};

class Collective {
 public:
  virtual ~Collective() = default;
  virtual int rank() const = 0;
  virtual int world_size() const = 0;
  virtual const Topology& topology() const = 0;
  std::string_view backend() const { return topology().backend; }

  // full[r * shard.size() ..] = shard of rank r.  full.size() == world_size * shard.size(). `shard`
  // may be the slice of `full` that it becomes. `what` names the operation in errors ("unit
  // layer.3").
  virtual PendingPtr all_gather(std::span<const std::byte> shard, std::span<std::byte> full,
                                std::string_view what) = 0;
  // Slice i of `send` goes to rank i of `reach`; slice i of `recv` comes from it. Slices are of
  // equal size: send.size() == recv.size() == number of ranks * slice.
  virtual PendingPtr all_to_all(std::span<const std::byte> send, std::span<std::byte> recv,
                                std::string_view what, Reach reach) = 0;
  // Names the step of training in the errors of operations that are issued from now on.
  virtual void begin_step(int64_t step) = 0;

  // A Collective of `members` only, ranks of this one, numbered in that order; this rank is one of
  // them. Every rank must call it, and the members that they name must partition the ranks. The
  // result has a queue of its own and needs this object no longer. Blocks.
  // Throws as Pending::wait(), or BackendUnavailableError if there is no room for another group.
  virtual std::unique_ptr<Collective> split(std::span<const int> members) = 0;
};

}  // namespace lockstep::runtime

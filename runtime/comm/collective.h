// The verbs that ranks speak. Issued in the same order on every rank; never blocking the caller.
// Backends: Gloo (c10d) and shared memory of one host. They only move bytes: every sum is done by
// the caller in a fixed order, so all backends give the same bits.
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

class Collective {
 public:
  virtual ~Collective() = default;
  virtual int rank() const = 0;
  virtual int world_size() const = 0;
  virtual std::string_view backend() const = 0;  // "gloo" | "shared-memory" | "single"

  // full[r * shard.size() ..] = shard of rank r.  full.size() == world_size * shard.size(). `shard`
  // may be the slice of `full` that it becomes. `what` names the operation in errors ("unit
  // layer.3").
  virtual PendingPtr all_gather(std::span<const std::byte> shard, std::span<std::byte> full,
                                std::string_view what) = 0;
  // Slice i of `send` goes to rank i; slice i of `recv` comes from rank i. Slices are of equal
  // size: send.size() == recv.size() == world_size * slice.
  virtual PendingPtr all_to_all(std::span<const std::byte> send, std::span<std::byte> recv,
                                std::string_view what) = 0;
  // Names the step of training in the errors of operations that are issued from now on.
  virtual void begin_step(int64_t step) = 0;

  // A Collective of `members` only, ranks of this one, numbered in that order; this rank is one of
  // them. Every rank must call it, and the members that they name must partition the ranks. The
  // result has a queue of its own and needs this object no longer. Blocks.
  // Throws as Pending::wait(), or BackendUnavailableError if there is no room for another group.
  virtual std::unique_ptr<Collective> split(std::span<const int> members) = 0;
};

}  // namespace lockstep::runtime

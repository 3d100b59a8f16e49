// Turns a blocking mover of bytes into a Collective: one thread carries out the operations in the
// order in which they were issued, so that callers never block and every backend behaves alike.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/comm/collective.h"
#include "runtime/comm/collective_observer.h"
#include "runtime/comm/standing.h"

namespace lockstep::runtime {

// Moves the bytes of one operation and returns when they are there. Called by one thread at a time,
// never with empty buffers. Throws PeerLostError or CollectiveTimeoutError naming operation and
// culprit, std::logic_error if this rank is in another operation than its peers; unusable after a
// throw. `own` numbers and names the operation: Note [Standings] in standing.h.
class Transport {
 public:
  virtual ~Transport() = default;
  virtual int rank() const = 0;
  virtual int world_size() const = 0;
  virtual const Topology& topology() const = 0;
  virtual void all_gather(std::span<const std::byte> shard, std::span<std::byte> full,
                          const Standing& own) = 0;
  // own.verb tells the reach; one that the topology does not have is never asked for.
  virtual void all_to_all(std::span<const std::byte> send, std::span<std::byte> recv,
                          const Standing& own) = 0;
  // As Collective::split(). Operations of the split itself stand as `own` tells: all-gathers of
  // kGroupTextBytes.
  virtual std::unique_ptr<Transport> split(std::span<const int> members, const Standing& own) = 0;
};

inline constexpr size_t kGroupTextBytes = 128;
// Gathers a text from every rank, cut to kGroupTextBytes - 1. Blocks, as all_gather().
std::vector<std::string> gather_group_texts(Transport& transport, const std::string& text,
                                            const Standing& own);

// After the first failure every later operation fails the same way. Destroying the Collective
// finishes what was issued. Throws std::logic_error at issue if buffer sizes do not fit together.
//   observer: told of its operations and of those of groups split from it; null: nobody is. It must
//   outlive them.
std::unique_ptr<Collective> make_async_collective(std::unique_ptr<Transport> transport,
                                                  CollectiveObserver* observer);

}  // namespace lockstep::runtime

// What the ranks of an attempt tell one another when they meet.
#pragma once

#include <chrono>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/comm/key_store.h"
#include "runtime/comm/rendezvous.h"

namespace lockstep::runtime {

// Note [The meeting]
// Keys, all under "attempt-A/". Rank 0 sets `segment` to the name of a fresh segment, or to "" if
// it could not or must not make one. Every rank tries to open it and sets `joined/R` to "yes" or to
// the reason why not. Rank 0 reads them all and sets `backend`; everybody follows. If that is Gloo
// and nobody asked for it, ranks find out who shares memory: each sets `marker/R` to the name of an
// empty file that it made there, and `leader/R` to the lowest rank whose file it finds. All draw
// the same conclusion from these: group_hosts(). The first rank of each host sets `host/R` to a
// segment, all of them `inside/R` as `joined/R`. Without two levels there is Gloo for all. For Gloo
// they also tell where their beacons are. At the end every rank sets `connected/R` and rank 0,
// whose process holds the store, stays until all have.

// The keys of one meeting.
class Meeting {
 public:
  using Clock = std::chrono::steady_clock;

  // Rank 0 listens, all dial. `options` must outlive it. Throws as connect().
  Meeting(const RendezvousOptions& options, Clock::time_point deadline);

  const KeyStore& store() const { return store_; }
  const std::string& address() const { return address_; }  // numeric, of rank 0

  // Blocks as get(). Throws PeerLostError, or RendezvousTimeoutError if rank 0 does not answer.
  void set(const std::string& key, std::string_view value) const;
  void set_own(const std::string& name, std::string_view value) const;

  // Blocks until the key is set. Throws RendezvousTimeoutError saying who was awaited: the ranks
  // that have not set their value of `needed`, which the writer of the key needs; else `writer`.
  // Throws as set().
  std::string get(const std::string& key, const std::string& writer,
                  const std::string& needed = "") const;
  // Values of "NAME/R" of all ranks; the error names every rank that is missing.
  std::vector<std::string> get_from_all(const std::string& name) const;

 private:
  KeyStore open();
  std::string awaited(const std::string& writer, const std::string& needed) const;

  const RendezvousOptions& options_;
  Clock::time_point deadline_;
  std::string address_;
  KeyStore store_;
};

std::string endpoint_of(const RendezvousOptions& options);

}  // namespace lockstep::runtime

#include "runtime/comm/rendezvous.h"

#include <algorithm>
#include <future>
#include <optional>
#include <random>
#include <string_view>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include <pthread.h>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include "runtime/comm/choose_backend.h"
#include "runtime/comm/gloo_collective.h"
#include "runtime/comm/shm_collective.h"
#include "runtime/comm/shm_segment.h"
#include "runtime/comm/single_collective.h"
#include "runtime/comm/tcp_endpoint.h"

namespace lockstep::runtime {
namespace {

using Backend = common::CommunicationConfig::Backend;
using Clock = std::chrono::steady_clock;

// Note [The meeting]
// Keys, all under "attempt-A/". Rank 0 sets `segment` to the name of a fresh segment, or to "" if
// it could not or must not make one. Every rank tries to open it and sets `joined/R` to "yes" or to
// the reason why not. Rank 0 reads them all and sets `backend`; everybody follows. For Gloo they
// also tell where their beacons are. At the end every rank sets `connected/R` and rank 0, whose
// process holds the store, stays until all have.

std::string endpoint_of(const RendezvousOptions& options) {
  return options.master_addr + ":" + std::to_string(options.master_port);
}

std::chrono::milliseconds time_left(Clock::time_point deadline) {
  const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now());
  return std::max(left, std::chrono::milliseconds(1));  // c10d reads 0 as forever
}

struct OpenStore {
  c10::intrusive_ptr<c10d::Store> store;
  std::string address;  // numeric, of rank 0
};

OpenStore open_store(const RendezvousOptions& options, Clock::time_point deadline) {
  c10d::TCPStoreOptions store_options;
  store_options.port = static_cast<uint16_t>(options.master_port);
  store_options.isServer = options.rank == 0;
  store_options.waitWorkers = false;
  std::string address;
  if (options.rank == 0) {
    const ListeningSocket socket = listen_as_master(options.master_addr, options.master_port);
    store_options.masterListenFd = socket.fd;  // the store closes it
    address = socket.address;
  } else {
    const auto found = await_listener(options.master_addr, options.master_port, deadline);
    if (!found) {
      throw RendezvousTimeoutError("rank " + std::to_string(options.rank) +
                                   ": rank 0 did not listen at " + endpoint_of(options) +
                                   " within " + std::to_string(options.timeout.count()) + " ms");
    }
    address = *found;
  }
  store_options.timeout = time_left(deadline);
  auto tcp = c10::make_intrusive<c10d::TCPStore>(address, store_options);
  const std::string prefix = "attempt-" + std::to_string(options.attempt);
  return {c10::make_intrusive<c10d::PrefixStore>(prefix, std::move(tcp)), address};
}

// The keys of one meeting.
class Meeting {
 public:
  Meeting(const RendezvousOptions& options, Clock::time_point deadline)
      : options_(options), deadline_(deadline), open_(open_store(options, deadline)) {}

  const c10::intrusive_ptr<c10d::Store>& store() const { return open_.store; }
  const std::string& address() const { return open_.address; }

  void set(const std::string& key, std::string_view value) const {
    open_.store->set(key, std::vector<uint8_t>(value.begin(), value.end()));
  }

  // Blocks until the key is set. Throws RendezvousTimeoutError saying who was awaited: the ranks
  // that have not set their value of `needed`, which the writer of the key needs; else `writer`.
  std::string get(const std::string& key, const std::string& writer,
                  const std::string& needed = "") {
    try {
      open_.store->wait({key}, time_left(deadline_));
    } catch (const c10::DistStoreError&) {
      throw RendezvousTimeoutError("rank " + std::to_string(options_.rank) + " waited " +
                                   std::to_string(options_.timeout.count()) + " ms at " +
                                   endpoint_of(options_) + " for " + awaited(writer, needed));
    }
    const std::vector<uint8_t> value = open_.store->get(key);
    return {value.begin(), value.end()};
  }

  // Values of "NAME/R" of all ranks; the error names every rank that is missing.
  std::vector<std::string> get_from_all(const std::string& name) {
    std::vector<std::string> values;
    values.reserve(static_cast<size_t>(options_.world_size));
    for (int rank = 0; rank < options_.world_size; ++rank) {
      values.push_back(
          get(name + "/" + std::to_string(rank), "rank " + std::to_string(rank), name));
    }
    return values;
  }

  void set_own(const std::string& name, std::string_view value) const {
    set(name + "/" + std::to_string(options_.rank), value);
  }

 private:
  std::string awaited(const std::string& writer, const std::string& needed) const {
    std::string ranks;
    int count = 0;
    for (int rank = 0; !needed.empty() && rank < options_.world_size; ++rank) {
      if (open_.store->check({needed + "/" + std::to_string(rank)})) continue;
      ranks.append(count++ > 0 ? ", " : "").append(std::to_string(rank));
    }
    if (count == 0) return writer;
    const std::string word = count == 1 ? "rank " : "ranks ";
    return word + ranks + " of " + std::to_string(options_.world_size);
  }

  const RendezvousOptions& options_;
  Clock::time_point deadline_;
  OpenStore open_;
};

// Rank 0: makes the segment unless Gloo is forced. Returns its name, or "" and the reason.
std::string offer_segment(const RendezvousOptions& options, std::string& reason) {
  if (options.backend == Backend::kGloo) return "";
  const std::string name = fresh_shm_segment_name();
  try {
    create_shm_segment(name, {.world_size = options.world_size});
    return name;
  } catch (const std::system_error& error) {
    reason = error.what();
    return "";
  }
}

// Opens the offered segment; on failure returns null and the reason.
std::unique_ptr<ShmSegment> try_join(const std::string& name, const RendezvousOptions& options,
                                     std::string& outcome) {
  if (name.empty()) {
    outcome = "no segment was offered";
    return nullptr;
  }
  try {
    auto segment = std::make_unique<ShmSegment>(name, options.rank, options.world_size);
    outcome = kJoinedSegment;
    return segment;
  } catch (const std::runtime_error& error) {
    outcome = error.what();
    return nullptr;
  }
}

// Rank 0 gathers every rank's outcome of try_join() and decides; all return its verdict.
std::string agree_on_backend(const RendezvousOptions& options, Meeting& meeting,
                             const std::string& own_outcome, const std::string& offer_failure) {
  meeting.set_own("joined", own_outcome);
  if (options.rank == 0) {
    const std::vector<std::string> joined = meeting.get_from_all("joined");
    meeting.set("backend", choose_backend(options.backend, joined, offer_failure));
  }
  return meeting.get("backend", "rank 0", "joined");
}

// Every rank sets `beacon/R` to its endpoint, and rank 0 `token`.
std::unique_ptr<Beacon> start_beacon(const RendezvousOptions& options, Meeting& meeting,
                                     const std::string& local_address) {
  auto beacon = std::make_unique<Beacon>(BeaconOptions{
      .rank = options.rank, .world_size = options.world_size, .local_address = local_address});
  meeting.set_own("beacon", beacon->endpoint());
  if (options.rank == 0) {
    std::random_device random;
    meeting.set("token", std::to_string(uint64_t{random()} << 32 | random()));
  }
  const uint64_t token = std::stoull(meeting.get("token", "rank 0"));
  beacon->start(meeting.get_from_all("beacon"), token);
  return beacon;
}

std::unique_ptr<Collective> connect_gloo(const RendezvousOptions& options, Meeting& meeting) {
  const std::string local_address = local_address_towards(meeting.address(), options.master_port);
  std::unique_ptr<Beacon> beacon = start_beacon(options, meeting, local_address);
  return make_gloo_collective(c10::make_intrusive<c10d::PrefixStore>("gloo", meeting.store()),
                              {.rank = options.rank,
                               .world_size = options.world_size,
                               .local_address = local_address,
                               .timeout = options.timeout,
                               .observer = options.observer},
                              std::move(beacon));
}

std::unique_ptr<Collective> meet(const RendezvousOptions& options) {
  Meeting meeting(options, Clock::now() + options.timeout);
  const bool is_master = options.rank == 0;
  std::string offer_failure;
  std::optional<ShmSegmentName> removed_at_end;
  if (is_master) {
    const std::string offer = offer_segment(options, offer_failure);
    if (!offer.empty()) removed_at_end.emplace(offer);
    meeting.set("segment", offer);
  }
  std::string outcome;
  std::unique_ptr<ShmSegment> segment =
      try_join(meeting.get("segment", "rank 0"), options, outcome);
  const std::string backend = agree_on_backend(options, meeting, outcome, offer_failure);

  std::unique_ptr<Collective> collective;
  if (backend == "shared-memory") {
    collective = make_shm_collective(std::move(segment), options.timeout, options.observer);
  } else if (backend == "gloo") {
    collective = connect_gloo(options, meeting);
  }
  meeting.set_own("connected", "yes");
  if (is_master) meeting.get_from_all("connected");
  if (collective == nullptr) {
    throw BackendUnavailableError("shared memory cannot serve these ranks, " + backend);
  }
  return collective;
}

// Note [A silent master]
// A store of c10d waits for a key with a timeout, but for the answers to get(), check() and set()
// without one: if rank 0 is stopped between two of them, they never return. So the meeting has a
// thread of its own, and who waits for it gives it up. Such a thread is never joined: nothing can
// wake it but the end of the process, which is near.
// It may take a little longer than the timeout: errors that name a rank come first, and a mesh of
// Gloo is only begun when the last rank has come.
constexpr std::chrono::milliseconds kLeastGrace{2000};

std::unique_ptr<Collective> meet_in_time(const RendezvousOptions& options) {
  std::packaged_task<std::unique_ptr<Collective>()> meeting([options] {
    pthread_setname_np(pthread_self(), "rendezvous");
    return meet(options);
  });
  std::future<std::unique_ptr<Collective>> met = meeting.get_future();
  std::thread thread(std::move(meeting));
  const auto limit = options.timeout + std::max(options.timeout / 10, kLeastGrace);
  if (met.wait_for(limit) != std::future_status::ready) {
    thread.detach();
    throw RendezvousTimeoutError("rank " + std::to_string(options.rank) +
                                 ": rank 0 did not answer at " + endpoint_of(options));
  }
  thread.join();
  return met.get();
}

}  // namespace

std::unique_ptr<Collective> connect(const RendezvousOptions& options) {
  if (options.world_size == 1) return make_single_collective();
  try {
    return meet_in_time(options);
  } catch (const c10::DistNetworkError& error) {
    throw PeerLostError("rendezvous: rank 0 left " + endpoint_of(options) + ": " +
                        error.what_without_backtrace());
  } catch (const c10::DistStoreError& error) {
    throw RendezvousTimeoutError("rendezvous at " + endpoint_of(options) + ": " +
                                 error.what_without_backtrace());
  }
}

}  // namespace lockstep::runtime

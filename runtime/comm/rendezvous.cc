#include "runtime/comm/rendezvous.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
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

#include "runtime/comm/choose_backend.h"
#include "runtime/comm/gloo_collective.h"
#include "runtime/comm/grouped_board.h"
#include "runtime/comm/grouped_transport.h"
#include "runtime/comm/meeting.h"
#include "runtime/comm/shm_collective.h"
#include "runtime/comm/shm_segment.h"
#include "runtime/comm/single_collective.h"
#include "runtime/comm/tcp_endpoint.h"
#include "runtime/common/broken_pipes.h"

namespace lockstep::runtime {
namespace {

using Backend = common::CommunicationConfig::Backend;
using Clock = std::chrono::steady_clock;

// Makes a segment. Returns its name, or "" and the reason.
std::string offer_segment(const std::string& folder, int num_ranks, std::string& reason) {
  const std::string name = fresh_shm_segment_name();
  try {
    create_shm_segment(folder + "/" + name, {.world_size = num_ranks});
    return name;
  } catch (const std::system_error& error) {
    reason = error.what();
    return "";
  }
}

// Opens an offered segment; on failure returns null and the reason, which stays if it is known.
std::unique_ptr<ShmSegment> try_join(const std::string& folder, const std::string& name, int rank,
                                     int num_ranks, std::string& outcome) {
  if (name.empty()) {
    if (outcome.empty()) outcome = "no segment was offered";
    return nullptr;
  }
  try {
    auto segment = std::make_unique<ShmSegment>(folder + "/" + name, rank, num_ranks);
    outcome = kJoinedSegment;
    return segment;
  } catch (const std::runtime_error& error) {
    outcome = error.what();
    return nullptr;
  }
}

// Rank 0 gathers every rank's outcome of try_join() and decides; all return its verdict.
std::string agree_on_backend(const RendezvousOptions& options, const Meeting& meeting,
                             const std::string& own_outcome, const std::string& offer_failure) {
  meeting.set_own("joined", own_outcome);
  if (options.rank == 0) {
    const std::vector<std::string> joined = meeting.get_from_all("joined");
    meeting.set("backend", choose_backend(options.backend, joined, offer_failure));
  }
  return meeting.get("backend", "rank 0", "joined");
}

// Every rank sets `beacon/R` to its endpoint, and rank 0 `token`.
std::unique_ptr<Beacon> start_beacon(const RendezvousOptions& options, const Meeting& meeting,
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

std::string choose_local_address(const RendezvousOptions& options, const Meeting& meeting) {
  if (options.network_interface.empty()) {
    return local_address_towards(meeting.address(), options.master_port);
  }
  const auto found = address_of_interface(options.network_interface, meeting.address());
  if (found) return *found;
  const std::string family = meeting.address().find(':') == std::string::npos ? "IPv4" : "IPv6";
  throw InterfaceNotFoundError(
      "GLOO_SOCKET_IFNAME: there is no interface " + options.network_interface + " with an " +
      family + " address, as rank 0 has; there are: " + interfaces_towards(meeting.address()));
}

GlooOptions gloo_options(const RendezvousOptions& options, const Meeting& meeting,
                         const std::string& reason) {
  return {.rank = options.rank,
          .world_size = options.world_size,
          .local_address = choose_local_address(options, meeting),
          .timeout = options.timeout,
          .reason = reason};
}

std::unique_ptr<Transport> connect_gloo(const RendezvousOptions& options, const Meeting& meeting,
                                        const std::string& reason) {
  const GlooOptions gloo = gloo_options(options, meeting, reason);
  return make_gloo_transport(c10::make_intrusive<c10d::PrefixStore>("gloo", meeting.store()), gloo,
                             {.board = start_beacon(options, meeting, gloo.local_address)});
}

// Which ranks share memory: see Note [The meeting].
HostGrouping find_hosts(const RendezvousOptions& options, const Meeting& meeting) {
  const std::string marker = fresh_shm_segment_name();
  const ShmSegmentFile removed_at_end(options.shm_folder + "/" + marker);
  const bool is_made = std::ofstream(options.shm_folder + "/" + marker).good();
  meeting.set_own("marker", is_made ? marker : "");
  const std::vector<std::string> markers = meeting.get_from_all("marker");
  int leader = 0;
  while (leader < options.rank) {
    const std::string& name = markers[static_cast<size_t>(leader)];
    if (!name.empty() && std::filesystem::exists(options.shm_folder + "/" + name)) break;
    ++leader;
  }
  meeting.set_own("leader", std::to_string(leader));
  std::vector<int> leaders;
  leaders.reserve(markers.size());
  for (const std::string& told : meeting.get_from_all("leader")) leaders.push_back(std::stoi(told));
  return group_hosts(leaders);
}

// The segment of this rank's host; null, and the reason in `hosts`, if some host has none.
std::shared_ptr<ShmSegment> join_host(const RendezvousOptions& options, const Meeting& meeting,
                                      HostGrouping& hosts) {
  const int place = options.rank % hosts.ranks_per_host;
  const std::string leader = std::to_string(options.rank - place);
  std::string outcome;
  std::optional<ShmSegmentFile> removed_at_end;
  if (place == 0) {
    const std::string offer = offer_segment(options.shm_folder, hosts.ranks_per_host, outcome);
    if (!offer.empty()) removed_at_end.emplace(options.shm_folder + "/" + offer);
    meeting.set_own("host", offer);
  }
  std::shared_ptr<ShmSegment> segment =
      try_join(options.shm_folder, meeting.get("host/" + leader, "rank " + leader), place,
               hosts.ranks_per_host, outcome);
  meeting.set_own("inside", outcome);
  int rank = 0;
  for (const std::string& told : meeting.get_from_all("inside")) {
    if (told != kJoinedSegment) {
      hosts = {.reason = "rank " + std::to_string(rank) + ": " + told};
      return nullptr;
    }
    ++rank;
  }
  return segment;
}

// A group of ranks over Gloo, beside the levels.
MakeNetworkGroup network_groups(const Meeting& meeting, const GlooOptions& gloo,
                                const BoardView& view) {
  return [store = meeting.store(), gloo, view, num_splits = 0](
             Transport& world, std::span<const int> members, const Standing& own) mutable {
    const std::string prefix = "split-" + std::to_string(num_splits++);
    return make_gloo_group(world, c10::make_intrusive<c10d::PrefixStore>(prefix, store), gloo, view,
                           members, own);
  };
}

// Shared memory inside hosts and Gloo across them; Gloo alone if they cannot be grouped.
//   obstacle: why not all ranks share memory.
std::unique_ptr<Transport> connect_hosts(const RendezvousOptions& options, const Meeting& meeting,
                                         const std::string& obstacle) {
  HostGrouping hosts = find_hosts(options, meeting);
  std::shared_ptr<ShmSegment> segment;
  if (hosts.ranks_per_host > 1 && hosts.ranks_per_host < options.world_size) {
    segment = join_host(options, meeting, hosts);
  }
  if (segment == nullptr) return connect_gloo(options, meeting, obstacle + "; " + hosts.reason);
  const int per_host = hosts.ranks_per_host;
  const int place = options.rank % per_host;
  const GlooOptions world = gloo_options(options, meeting, "");
  const auto board =
      std::make_shared<GroupedBoard>(segment, start_beacon(options, meeting, world.local_address));
  BoardView inside{.board = board};
  BoardView across{.board = board};
  for (int i = 0; i < per_host; ++i) inside.places.push_back(options.rank - place + i);
  for (int rank = place; rank < options.world_size; rank += per_host) across.places.push_back(rank);
  GlooOptions of_level = world;
  of_level.rank = options.rank / per_host;
  of_level.world_size = options.world_size / per_host;
  auto network = make_gloo_transport(
      c10::make_intrusive<c10d::PrefixStore>("gloo-" + std::to_string(place), meeting.store()),
      of_level, std::move(across));
  return make_grouped_transport(
      make_shm_transport(std::move(segment), options.timeout, std::move(inside)),
      std::move(network), network_groups(meeting, world, {.board = board}), hosts.reason);
}

// `backend` as choose_backend() tells it; null if it is refused.
std::unique_ptr<Collective> carry_out(const std::string& backend, const RendezvousOptions& options,
                                      const Meeting& meeting, std::unique_ptr<ShmSegment> segment) {
  if (backend == "shared-memory") {
    return make_shm_collective(std::move(segment), options.timeout, options.observer);
  }
  const std::string gloo = "gloo: ";
  if (!backend.starts_with(gloo)) return nullptr;
  segment.reset();
  const std::string reason = backend.substr(gloo.size());
  return make_async_collective(options.backend == Backend::kGloo
                                   ? connect_gloo(options, meeting, reason)
                                   : connect_hosts(options, meeting, reason),
                               options.observer);
}

std::unique_ptr<Collective> meet(const RendezvousOptions& options) {
  Meeting meeting(options, Clock::now() + options.timeout);
  const bool is_master = options.rank == 0;
  std::string offer_failure;
  std::optional<ShmSegmentFile> removed_at_end;
  if (is_master) {
    std::string offer;
    if (options.backend != Backend::kGloo) {
      offer = offer_segment(options.shm_folder, options.world_size, offer_failure);
    }
    if (!offer.empty()) removed_at_end.emplace(options.shm_folder + "/" + offer);
    meeting.set("segment", offer);
  }
  std::string outcome;
  std::unique_ptr<ShmSegment> segment =
      try_join(options.shm_folder, meeting.get("segment", "rank 0"), options.rank,
               options.world_size, outcome);
  const std::string backend = agree_on_backend(options, meeting, outcome, offer_failure);
  std::unique_ptr<Collective> collective = carry_out(backend, options, meeting, std::move(segment));
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
  common::ignore_broken_pipes();
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

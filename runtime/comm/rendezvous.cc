#include "runtime/comm/rendezvous.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <optional>
#include <random>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

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
  return load_gloo().make_transport(meeting.store().under("gloo"), gloo,
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
    return load_gloo().make_group(world, store.under(prefix), gloo, view, members, own);
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
  const Gloo& gloo = load_gloo();  // before the beacon tells the others that this rank is there
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
  auto network = gloo.make_transport(meeting.store().under("gloo-" + std::to_string(place)),
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

}  // namespace

std::unique_ptr<Collective> connect(const RendezvousOptions& options) {
  if (options.world_size == 1) return make_single_collective();
  common::ignore_broken_pipes();
  try {
    return meet(options);
  } catch (const KeyStoreSilentError&) {
    throw RendezvousTimeoutError("rank " + std::to_string(options.rank) +
                                 ": rank 0 did not answer at " + endpoint_of(options));
  } catch (const KeyStoreLostError& error) {
    throw PeerLostError("rendezvous: rank 0 left " + endpoint_of(options) + ": " + error.what());
  }
}

}  // namespace lockstep::runtime

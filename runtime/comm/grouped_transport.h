// A world of several hosts with as many ranks on each: shared memory inside, a network across.
//
// Note [Two levels]
// L ranks on each of H hosts, W = H L. Rank h L + l has two transports: to the ranks of host h, and
// to the l-th ranks of all hosts. An all-gather first gathers across, the shards of the l-th ranks,
// then inside: W - L shards enter a host, each once. An all-to-all sends the slices of host h' to
// the l-th rank there, which hands them out: L (W - L) slices leave a host, as without levels, in
// fewer messages. What lowers that number is adding before sending, which is the caller's: see
// Note [Sums by hosts] in parallel/reduction_tree.h; Reach gives it each level by itself.
// Both levels use one board, where ranks and verdicts have their numbers in the world.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>

#include "runtime/comm/async_collective.h"

namespace lockstep::runtime {

// Makes a group's transport over the network; called by all ranks of `world`. As
// Transport::split().
using MakeNetworkGroup = std::function<std::unique_ptr<Transport>(
    Transport& world, std::span<const int> members, const Standing& own)>;

//   inside, across: as in Note [Two levels]; both stand on the world's board.
//   reason: of the topology.
std::unique_ptr<Transport> make_grouped_transport(std::unique_ptr<Transport> inside,
                                                  std::unique_ptr<Transport> across,
                                                  MakeNetworkGroup make_network_group,
                                                  const std::string& reason);

}  // namespace lockstep::runtime

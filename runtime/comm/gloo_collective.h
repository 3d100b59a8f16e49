// Collectives over TCP by c10d's ProcessGroupGloo. Includes torch: only comm/*.cc may include this.
#pragma once

#include <chrono>
#include <memory>
#include <span>
#include <string>

#include <torch/csrc/distributed/c10d/Store.hpp>

#include "runtime/comm/async_collective.h"
#include "runtime/comm/standing.h"

namespace lockstep::runtime {

struct GlooOptions {
  int rank = 0;
  int world_size = 1;
  std::string local_address;  // numeric; peers dial it
  std::chrono::milliseconds timeout{600'000};
  std::string reason{};  // of the topology
};

// Connects all ranks through `store`, which must be a prefix that no other group uses (a second
// group on the same keys would pick up the first one's addresses). Throws what c10d throws if the
// ranks do not meet.
//   view: where the ranks stand; its board hears of them already.
std::unique_ptr<Transport> make_gloo_transport(const c10::intrusive_ptr<c10d::Store>& store,
                                               const GlooOptions& options, BoardView view);

// A group of `members` of `world`, in that order, as Transport::split().
//   store: as above; it is the same for all groups of one split.
//   options: of the world.
//   view: of the world's ranks.
// Throws as a collective of `world` if the members do not meet: what they lost or waited for.
std::unique_ptr<Transport> make_gloo_group(Transport& world,
                                           const c10::intrusive_ptr<c10d::Store>& store,
                                           const GlooOptions& options, const BoardView& view,
                                           std::span<const int> members, const Standing& own);

}  // namespace lockstep::runtime

// Collectives over TCP by c10d's ProcessGroupGloo. Includes torch: only comm/*.cc may include this.
#pragma once

#include <chrono>
#include <memory>
#include <string>

#include <torch/csrc/distributed/c10d/Store.hpp>

#include "runtime/comm/beacon.h"
#include "runtime/comm/collective.h"
#include "runtime/comm/collective_observer.h"

namespace lockstep::runtime {

struct GlooOptions {
  int rank = 0;
  int world_size = 1;
  std::string local_address;  // numeric; peers dial it
  std::chrono::milliseconds timeout{600'000};
  CollectiveObserver* observer = nullptr;  // as make_async_collective()
};

// Connects all ranks through `store`, which must be a prefix that no other group uses (a second
// group on the same keys would pick up the first one's addresses). Throws what c10d throws if the
// ranks do not meet.
//   beacon: started; tells where the ranks stand.
std::unique_ptr<Collective> make_gloo_collective(const c10::intrusive_ptr<c10d::Store>& store,
                                                 const GlooOptions& options,
                                                 std::unique_ptr<Beacon> beacon);

}  // namespace lockstep::runtime

// Collectives of ranks that share memory. Any size passes through the segment in chunks.
#pragma once

#include <chrono>
#include <memory>

#include "runtime/comm/async_collective.h"
#include "runtime/comm/collective.h"
#include "runtime/comm/collective_observer.h"
#include "runtime/comm/shm_segment.h"
#include "runtime/comm/standing.h"

namespace lockstep::runtime {

// `timeout` bounds each operation from the moment its turn comes. A dead peer is noticed within a
// few tenths of a second. `observer`: as make_async_collective().
std::unique_ptr<Collective> make_shm_collective(std::unique_ptr<ShmSegment> segment,
                                                std::chrono::milliseconds timeout,
                                                CollectiveObserver* observer = nullptr);

// The mover of bytes below it, as one level of a grouped world whose board it uses.
std::unique_ptr<Transport> make_shm_transport(std::shared_ptr<ShmSegment> segment,
                                              std::chrono::milliseconds timeout, BoardView view);

}  // namespace lockstep::runtime

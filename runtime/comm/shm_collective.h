// Collectives of ranks that share memory. Any size passes through the segment in chunks.
#pragma once

#include <chrono>
#include <memory>

#include "runtime/comm/collective.h"
#include "runtime/comm/shm_segment.h"

namespace lockstep::runtime {

// `timeout` bounds each operation from the moment its turn comes. A dead peer is noticed within a
// few tenths of a second.
std::unique_ptr<Collective> make_shm_collective(std::unique_ptr<ShmSegment> segment,
                                                std::chrono::milliseconds timeout);

}  // namespace lockstep::runtime

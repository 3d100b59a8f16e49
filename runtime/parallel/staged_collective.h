// Lets a Collective, which moves the host's memory, move a device's.
#pragma once

#include <memory>

#include "runtime/comm/collective.h"

namespace lockstep::runtime {

// Buffers of the device are copied to the host when an operation is issued, and what came back to
// the device when it is waited for; others pass through. With one rank nothing goes to the host.
// Issuing waits for the kernels that make what is sent.
std::unique_ptr<Collective> make_staged_collective(std::unique_ptr<Collective> inner);

}  // namespace lockstep::runtime

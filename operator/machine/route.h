// The way from this machine to another.
#pragma once

#include <string>

#include "operator/machine/facts.h"

namespace lockstep::machine {

// Which interface the system would send through to reach `master`, a host name or an address. Sends
// nothing but the look-up of a name, for which it blocks.
RouteFacts read_route(const std::string& master);

}  // namespace lockstep::machine

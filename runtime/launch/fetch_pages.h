// Asks several ranks of this machine for a page each, all at once.
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "runtime/common/result.h"
#include "runtime/common/status_client.h"

namespace lockstep::launch {

// GET of every page, on connections of their own that are waited for together: ranks that hang
// cost `limit` once, however many they are. Hosts are IPv4 addresses.
// Returns the bodies in the order of `pages`. Errors, of one page each: kUnavailable (no whole
// answer within `limit`, or not 200), kInvalidArgument (a host that is no address).
std::vector<common::Result<std::string>> fetch_pages(const std::vector<common::PageAddress>& pages,
                                                     std::chrono::milliseconds limit);

}  // namespace lockstep::launch

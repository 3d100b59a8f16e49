// Asks a rank how far it is.
#pragma once

#include <chrono>
#include <string>

#include "runtime/common/progress.h"
#include "runtime/common/result.h"

namespace lockstep::common {

// GET http://host:port/status. `timeout` bounds connecting and each read by itself.
// Errors: kUnavailable (no answer, or not 200), kDataLoss (an answer that is no progress).
Result<JobProgress> fetch_status(const std::string& host, int port,
                                 std::chrono::milliseconds timeout);

}  // namespace lockstep::common

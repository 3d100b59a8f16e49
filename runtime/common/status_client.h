// Asks a rank how far it is.
#pragma once

#include <chrono>
#include <string>

#include "runtime/common/progress.h"
#include "runtime/common/result.h"

namespace lockstep::common {

// A page of a rank, or of the launcher of its pod.
struct PageAddress {
  std::string host;
  int port = 0;
  std::string path = "/status";
};

// GET http://host:port/path. `timeout` bounds connecting and each read by itself.
// Errors: kUnavailable (no answer, or not 200), kDataLoss (an answer that is no progress).
Result<JobProgress> fetch_status(const PageAddress& page, std::chrono::milliseconds timeout);

}  // namespace lockstep::common

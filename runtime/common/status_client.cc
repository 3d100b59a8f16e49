#include "runtime/common/status_client.h"

#include <httplib.h>

namespace lockstep::common {

Result<JobProgress> fetch_status(const std::string& host, int port,
                                 std::chrono::milliseconds timeout) {
  const std::string where = host + ":" + std::to_string(port) + "/status";
  httplib::Client client(host, port);
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(timeout);
  const auto rest = std::chrono::duration_cast<std::chrono::microseconds>(timeout - seconds);
  client.set_connection_timeout(seconds.count(), static_cast<time_t>(rest.count()));
  client.set_read_timeout(seconds.count(), static_cast<time_t>(rest.count()));
  client.set_write_timeout(seconds.count(), static_cast<time_t>(rest.count()));
  const httplib::Result answer = client.Get("/status");
  if (!answer) {
    return Error{ErrorCode::kUnavailable, where + ": " + httplib::to_string(answer.error()), ""};
  }
  if (answer->status != 200) {
    return Error{ErrorCode::kUnavailable, where + ": HTTP " + std::to_string(answer->status), ""};
  }
  return decode_progress(answer->body);
}

}  // namespace lockstep::common

#include "runtime/common/status_client.h"

#include <httplib.h>

namespace lockstep::common {
namespace {

Result<std::string> fetch_page(const PageAddress& page, std::chrono::milliseconds timeout) {
  const std::string where = page.host + ":" + std::to_string(page.port) + page.path;
  httplib::Client client(page.host, page.port);
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(timeout);
  const auto rest = std::chrono::duration_cast<std::chrono::microseconds>(timeout - seconds);
  client.set_connection_timeout(seconds.count(), static_cast<time_t>(rest.count()));
  client.set_read_timeout(seconds.count(), static_cast<time_t>(rest.count()));
  client.set_write_timeout(seconds.count(), static_cast<time_t>(rest.count()));
  httplib::Result answer = client.Get(page.path);
  if (!answer) {
    return Error{ErrorCode::kUnavailable, where + ": " + httplib::to_string(answer.error()), ""};
  }
  if (answer->status != 200) {
    return Error{ErrorCode::kUnavailable, where + ": HTTP " + std::to_string(answer->status), ""};
  }
  return std::move(answer->body);
}

}  // namespace

Result<JobProgress> fetch_status(const PageAddress& page, std::chrono::milliseconds timeout) {
  ASSIGN_OR_RETURN(const std::string body, fetch_page(page, timeout));
  return decode_progress(body);
}

}  // namespace lockstep::common

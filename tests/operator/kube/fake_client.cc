#include "tests/operator/kube/fake_client.h"

#include <condition_variable>
#include <mutex>

namespace lockstep::kube {

std::optional<ApiError> FakeClient::stream(const ResourcePath& /*path*/, const std::string& query,
                                           std::stop_token stop,
                                           const std::function<bool(std::string_view)>& on_line) {
  ScriptedWatch watch;
  watch.stays_open = true;  // a script that is at its end is an idle server
  {
    const MutexLock lock(mutex_);
    calls_.push_back("watch " + query);
    if (!watches_.empty()) {
      watch = std::move(watches_.front());
      watches_.pop_front();
    }
  }
  for (const std::string& line : watch.lines) {
    if (!on_line(line)) return std::nullopt;
  }
  if (!watch.stays_open) return watch.end;
  std::mutex mutex;
  std::condition_variable_any never;
  std::unique_lock lock(mutex);
  never.wait(lock, stop, [] { return false; });
  return std::nullopt;
}

}  // namespace lockstep::kube

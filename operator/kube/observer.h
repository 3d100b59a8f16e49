// What this library tells to whoever counts. Every function may be empty; all may be called from
// several threads at once and must not block.
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <string>
#include <string_view>

namespace lockstep::kube {

// rest_client_requests_total, rest_client_request_duration_seconds.
struct RequestObserver {
  // `code` is "200", ..., or "<error>" without an answer. A watch is told when its headers arrive.
  std::function<void(std::string_view method, std::string_view code, const std::string& host,
                     std::chrono::duration<double> elapsed)>
      on_request;
};

// workqueue_depth, _adds_total, _retries_total, _queue_duration_seconds, _work_duration_seconds.
struct QueueObserver {
  std::function<void(std::size_t depth)> on_depth;
  std::function<void()> on_add;
  std::function<void()> on_retry;
  std::function<void(std::chrono::duration<double> waited)> on_get;
  std::function<void(std::chrono::duration<double> worked)> on_done;
};

}  // namespace lockstep::kube

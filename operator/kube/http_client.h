// Client over HTTP/1.1 and TLS.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <stop_token>
#include <string>

#include "operator/kube/client.h"
#include "operator/kube/client_config.h"
#include "operator/kube/observer.h"
#include "runtime/common/result.h"

namespace lockstep::kube {

struct HttpClientOptions {
  std::string user_agent = "lockstep-operator";
  std::string field_manager = "lockstep-operator";
  std::chrono::milliseconds connect_timeout{10'000};  // of TCP, and of TLS after it
  // Gives up every call in flight, without an answer, once it is requested. Lists and streams have
  // a stop of their own.
  std::stop_token stop;
  // From sending a request to its whole answer. The server's own limit is 60 s. Leader election
  // makes a client of its own with half its renewal deadline here.
  std::chrono::milliseconds request_timeout{65'000};
  RequestObserver observer;
  // Asked before every write, and once more when nothing but its body is left to send; false: it is
  // not sent. Must not block; may be empty. See WriteFence.
  std::function<bool()> may_write;
};

// The reason of a write's ApiError if may_write said no: nothing was done.
inline constexpr const char* kFencedReason = "Fenced";

// A client of the server that `config` names; nothing is sent yet. Requests share a few keep-alive
// connections, each stream has its own. A GET whose connection was reset is repeated once; a write
// never is: without an answer its ApiError has http_status 0. A call that was refused on
// credentials which have been rotated meanwhile (401, or an unknown authority) goes out once more
// on the new ones: nothing was done. The client never waits: its callers know what a Retry-After is
// worth. Sets SIGPIPE to be ignored if it has its default action: TLS writes cannot say
// MSG_NOSIGNAL. kInvalidArgument if the URL or a certificate cannot be used.
common::Result<std::unique_ptr<Client>> make_http_client(const ClientConfig& config,
                                                         HttpClientOptions options);

}  // namespace lockstep::kube

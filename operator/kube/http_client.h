// Client over HTTP/1.1 and TLS.
#pragma once

#include <chrono>
#include <memory>
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
  // From sending a request to its whole answer. The server's own limit is 60 s. Leader election
  // makes a client of its own with half its renewal deadline here.
  std::chrono::milliseconds request_timeout{65'000};
  RequestObserver observer;
};

// A client of the server that `config` names; nothing is sent yet. Requests share a few keep-alive
// connections, each stream has its own. A GET whose connection was reset is repeated once; a write
// never is: without an answer its ApiError has http_status 0.
// Sets SIGPIPE to be ignored if it has its default action: TLS writes cannot say MSG_NOSIGNAL.
// kInvalidArgument if the URL or a certificate cannot be used.
common::Result<std::unique_ptr<Client>> make_http_client(const ClientConfig& config,
                                                         HttpClientOptions options);

}  // namespace lockstep::kube

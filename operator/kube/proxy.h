// The proxy on the way to an API server.
// Source: golang.org/x/net/http/httpproxy, whose rules client-go has.
#pragma once

#include <chrono>
#include <string>

#include "operator/kube/client_config.h"
#include "operator/kube/server_url.h"
#include "runtime/common/result.h"

namespace lockstep::kube {

struct Proxy {
  std::string host;
  int port = 0;
  std::string authorization;  // "Basic ..."; empty = none
};

// "http://user:password@host:port", or without "http://". kInvalidArgument for anything that is no
// plain HTTP proxy: SOCKS and proxies that speak TLS themselves are refused by name.
common::Result<Proxy> parse_proxy(const std::string& url);

// The URL of the proxy that the environment names for `server`: $HTTPS_PROXY or $HTTP_PROXY (or in
// small letters) unless $NO_PROXY covers the server; empty if none. Never one for loopback.
std::string proxy_from_environment(const ServerUrl& server, const EnvLookup& env);

// Fills `config.proxy_url` from the environment if it is empty. kInvalidArgument as parse_proxy().
common::Result<void> use_proxy_of(const EnvLookup& env, ClientConfig& config);

// Asks the proxy at the other end of the connected socket `fd` for a connection to `target`
// ("host:port") and waits for its answer until `deadline`. kUnavailable if it refuses.
common::Result<void> open_tunnel(int fd, const Proxy& proxy, const std::string& target,
                                 std::chrono::steady_clock::time_point deadline);

}  // namespace lockstep::kube

// "https://[::1]:6443/prefix" in its parts.
#pragma once

#include <string>

#include "runtime/common/result.h"

namespace lockstep::kube {

struct ServerUrl {
  bool tls = false;
  std::string host;  // without brackets
  int port = 0;
  std::string prefix;  // "" or "/prefix"
};

// kInvalidArgument if `url` is not http:// or https:// with a host.
common::Result<ServerUrl> parse_server_url(const std::string& url);

}  // namespace lockstep::kube

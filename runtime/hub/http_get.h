// One GET over HTTP or HTTPS: the only part of this library that talks to a network.
#pragma once

#include <functional>
#include <map>
#include <stop_token>
#include <string>
#include <string_view>

#include "runtime/hub/hub_settings.h"
#include "runtime/hub/url.h"

namespace lockstep::runtime {

struct HttpReply {
  int status = 0;                              // 0: no answer
  std::map<std::string, std::string> headers;  // names in small letters
  std::string body;                            // what `take` did not take; at most 64 MiB
  std::string broken;    // why there is no answer, or not all of it; empty if it is whole
  bool may_pass = true;  // of `broken`: false for a certificate that is not accepted

  std::string header(const std::string& name) const;
};

// Where the contents go, beginning with byte `begin` of the whole; false ends the transfer.
struct BodySink {
  std::function<bool(int64_t begin)> begin;
  std::function<bool(std::string_view piece)> take;
};

struct HttpRequest {
  Url url;
  std::string token;               // sent as a bearer's; empty: none
  int64_t from_byte = 0;           // ask for the rest of the contents only
  const BodySink* sink = nullptr;  // of contents (200, 206); null: they go to the reply's body
};

// Follows no redirect. Blocks: up to 10 s to connect and 30 s for each piece; ends early once
// `stop` is requested.
HttpReply http_get(const HttpRequest& request, const ProxySettings& proxies,
                   const std::stop_token& stop);

}  // namespace lockstep::runtime

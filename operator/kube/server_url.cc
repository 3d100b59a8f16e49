#include "operator/kube/server_url.h"

#include <algorithm>
#include <charconv>

namespace lockstep::kube {

using common::Error;
using common::ErrorCode;
using common::Result;

Result<ServerUrl> parse_server_url(const std::string& url) {
  const auto bad = [&url](const std::string& why) {
    return Error{ErrorCode::kInvalidArgument, "server '" + url + "': " + why,
                 "write it as https://HOST:PORT"};
  };
  ServerUrl out;
  std::size_t at = url.find("://");
  const std::string scheme = url.substr(0, at);
  if (at == std::string::npos || (scheme != "https" && scheme != "http")) {
    return bad("must begin with https:// or http://");
  }
  out.tls = scheme == "https";
  at += 3;
  const std::size_t end = std::min(url.find('/', at), url.size());
  out.prefix = url.substr(end);
  while (!out.prefix.empty() && out.prefix.back() == '/') out.prefix.pop_back();
  if (out.prefix.find_first_of("?#") != std::string::npos) return bad("must not have a query");
  std::string authority = url.substr(at, end - at);
  if (authority.find_first_of("@?#") != std::string::npos) return bad("must be a host and a port");
  std::size_t colon = authority.rfind(':');
  if (!authority.empty() && authority.front() == '[') {
    const std::size_t close = authority.find(']');
    if (close == std::string::npos) return bad("has no closing bracket");
    out.host = authority.substr(1, close - 1);
    colon = close + 1 < authority.size() ? close + 1 : std::string::npos;
    if (colon != std::string::npos && authority[colon] != ':') return bad("has a malformed host");
  } else {
    out.host = authority.substr(0, colon);
  }
  if (out.host.empty()) return bad("has no host");
  out.port = out.tls ? 443 : 80;
  if (colon == std::string::npos) return out;
  const char* first = authority.data() + colon + 1;
  const char* last = authority.data() + authority.size();
  const auto [rest, error] = std::from_chars(first, last, out.port);
  if (error != std::errc() || rest != last || out.port < 1 || out.port > 65535) {
    return bad("has a malformed port");
  }
  return out;
}

}  // namespace lockstep::kube

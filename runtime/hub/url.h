// Addresses on the web, as far as downloads need them.
#pragma once

#include <string>
#include <string_view>

#include "runtime/common/result.h"

namespace lockstep::runtime {

struct Url {
  std::string scheme;  // http or https
  std::string host;    // IPv6 in brackets
  int port = 0;
  std::string target;  // path and query, encoded; begins with a slash

  // "https://host:port"
  std::string origin() const { return scheme + "://" + host + ":" + std::to_string(port); }
};

// kInvalidArgument for anything but http:// or https:// with a host. Fragments are cut off.
common::Result<Url> parse_url(std::string_view text);

// Where `location` of an answer from `from` leads: it may be whole, or a path on the same server.
common::Result<Url> follow(const Url& from, std::string_view location);

// `text` with everything encoded that is no letter, digit or one of "-._~"; slashes stay.
std::string encode_path(std::string_view text);
// The same, slashes too: for one part of a path.
std::string encode_part(std::string_view text);

}  // namespace lockstep::runtime

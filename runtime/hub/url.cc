#include "runtime/hub/url.h"

#include <algorithm>
#include <cctype>
#include <charconv>

namespace lockstep::runtime {
namespace {

using common::Error;
using common::ErrorCode;
using common::Result;

Error no_url(std::string_view text) {
  return Error{ErrorCode::kInvalidArgument, std::string("'").append(text).append("' is no address"),
               "write it as https://HOST[:PORT]"};
}

std::string encode(std::string_view text, std::string_view kept) {
  constexpr std::string_view kDigits = "0123456789ABCDEF";
  std::string encoded;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    const bool is_plain = byte < 128 && std::isalnum(byte) != 0;
    if (is_plain || kept.find(c) != std::string_view::npos) {
      encoded.push_back(c);
    } else {
      encoded.push_back('%');
      encoded.push_back(kDigits[byte >> 4U]);
      encoded.push_back(kDigits[byte & 15U]);
    }
  }
  return encoded;
}

}  // namespace

Result<Url> parse_url(std::string_view text) {
  const std::size_t scheme_end = text.find("://");
  Url url{.scheme = std::string(text.substr(0, std::min(scheme_end, text.size())))};
  if (scheme_end == std::string_view::npos || (url.scheme != "http" && url.scheme != "https")) {
    return no_url(text);
  }
  std::string_view rest = text.substr(scheme_end + 3);
  rest = rest.substr(0, rest.find('#'));
  const std::size_t authority_end = std::min(rest.find_first_of("/?"), rest.size());
  std::string_view authority = rest.substr(0, authority_end);
  rest.remove_prefix(authority_end);
  if (!rest.starts_with('/')) url.target.push_back('/');
  url.target.append(rest);
  url.port = url.scheme == "https" ? 443 : 80;
  const std::size_t bracket = authority.rfind(']');
  const std::size_t colon = authority.rfind(':');
  const bool has_port =
      colon != std::string_view::npos && (bracket == std::string_view::npos || colon > bracket);
  if (has_port) {
    const std::string_view digits = authority.substr(colon + 1);
    const char* const end = digits.data() + digits.size();
    const auto read = std::from_chars(digits.data(), end, url.port);
    if (read.ec != std::errc() || read.ptr != end || url.port < 1 || url.port > 65535) {
      return no_url(text);
    }
    authority = authority.substr(0, colon);
  }
  url.host = std::string(authority);
  const auto is_bad = [](char c) {
    return static_cast<unsigned char>(c) <= ' ' || c == '@' || c == '\\';
  };
  if (url.host.empty() || std::any_of(url.host.begin(), url.host.end(), is_bad))
    return no_url(text);
  const auto is_control = [](char c) { return static_cast<unsigned char>(c) <= ' '; };
  if (std::any_of(url.target.begin(), url.target.end(), is_control)) return no_url(text);
  return url;
}

Result<Url> follow(const Url& from, std::string_view location) {
  if (location.find("://") != std::string_view::npos) return parse_url(location);
  if (!location.starts_with('/') || location.starts_with("//")) return no_url(location);
  return parse_url(from.origin().append(location));
}

std::string encode_path(std::string_view text) {
  return encode(text, "-._~/");
}

std::string encode_part(std::string_view text) {
  return encode(text, "-._~");
}

}  // namespace lockstep::runtime

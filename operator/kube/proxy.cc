#include "operator/kube/proxy.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include <arpa/inet.h>
#include <poll.h>
#include <sys/socket.h>

namespace lockstep::kube {
namespace {

using common::Error;
using common::ErrorCode;
using common::Result;
using Clock = std::chrono::steady_clock;

std::string lower(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return text;
}

std::string first_of(const EnvLookup& env, const char* upper_name) {
  const std::string value = env(upper_name).value_or("");
  return value.empty() ? env(lower(upper_name)).value_or("") : value;
}

int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  const char small = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return small >= 'a' && small <= 'f' ? small - 'a' + 10 : -1;
}

std::string percent_decode(const std::string& text) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const bool escaped = text[i] == '%' && i + 2 < text.size() && hex_digit(text[i + 1]) >= 0 &&
                         hex_digit(text[i + 2]) >= 0;
    if (!escaped) {
      out += text[i];
      continue;
    }
    out += static_cast<char>(hex_digit(text[i + 1]) * 16 + hex_digit(text[i + 2]));
    i += 2;
  }
  return out;
}

using Address = std::vector<uint8_t>;  // 4 or 16 bytes; empty: not an address

Address address_of(const std::string& text) {
  std::array<uint8_t, 16> bytes{};
  if (inet_pton(AF_INET, text.c_str(), bytes.data()) == 1)
    return {bytes.begin(), bytes.begin() + 4};
  if (inet_pton(AF_INET6, text.c_str(), bytes.data()) == 1) return {bytes.begin(), bytes.end()};
  return {};
}

// True if `address` lies in "10.0.0.0/8".
bool is_in_network(const Address& address, const std::string& network) {
  const std::size_t slash = network.find('/');
  if (slash == std::string::npos || address.empty()) return false;
  const Address base = address_of(network.substr(0, slash));
  const std::string digits = network.substr(slash + 1);
  const bool is_number = !digits.empty() && digits.size() <= 3 &&
                         std::all_of(digits.begin(), digits.end(),
                                     [](unsigned char c) { return std::isdigit(c) != 0; });
  if (base.size() != address.size() || !is_number) return false;
  const int num_bits = std::stoi(digits);
  if (num_bits > static_cast<int>(base.size()) * 8) return false;
  for (int bit = 0; bit < num_bits; ++bit) {
    const auto byte = static_cast<std::size_t>(bit / 8);
    const int difference = base[byte] ^ address[byte];
    if (((difference >> (7 - bit % 8)) & 1) != 0) return false;
  }
  return true;
}

bool is_loopback(const std::string& host, const Address& address) {
  if (host == "localhost") return true;
  if (address.size() == 4) return address[0] == 127;
  return address == address_of("::1");
}

// One entry of NO_PROXY: "*", an address, a network, or a domain and all below it; a leading dot
// leaves the domain itself out. A port must match if there is one.
bool covers(std::string entry, const ServerUrl& server) {
  const std::string host = lower(server.host);
  const Address address = address_of(host);
  if (entry == "*") return true;
  if (is_in_network(address, entry)) return true;
  if (!address_of(entry).empty()) return address_of(entry) == address;
  const std::size_t colon = entry.rfind(':');
  if (colon != std::string::npos) {
    if (entry.substr(colon + 1) != std::to_string(server.port)) return false;
    entry.resize(colon);
  }
  if (entry.size() > 1 && entry.front() == '[') entry = entry.substr(1, entry.size() - 2);
  if (!address.empty()) return address_of(entry) == address;
  if (entry.starts_with("*.")) entry.erase(0, 1);
  if (!entry.empty() && entry.front() != '.' && host == entry) return true;
  if (entry.empty()) return false;
  const std::string suffix = entry.front() == '.' ? entry : "." + entry;
  return host.size() > suffix.size() && host.ends_with(suffix);
}

bool is_excepted(const ServerUrl& server, const std::string& no_proxy) {
  for (std::size_t begin = 0; begin < no_proxy.size();) {
    const std::size_t end = std::min(no_proxy.find(',', begin), no_proxy.size());
    const std::string entry = lower(trim(no_proxy.substr(begin, end - begin)));
    if (!entry.empty() && covers(entry, server)) return true;
    begin = end + 1;
  }
  return false;
}

// Waits until `fd` is ready for `events`; false at the deadline.
bool wait_for(int fd, short events, Clock::time_point deadline) {
  const auto left =
      std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now()).count();
  pollfd entry{fd, events, 0};
  return left > 0 && poll(&entry, 1, static_cast<int>(left)) > 0;
}

}  // namespace

Result<Proxy> parse_proxy(const std::string& url) {
  std::string rest = url;
  const std::size_t at = url.find("://");
  if (at != std::string::npos) {
    const std::string scheme = lower(url.substr(0, at));
    if (scheme.starts_with("socks")) {
      return Error{ErrorCode::kInvalidArgument, "SOCKS proxies are not supported",
                   "name an HTTP proxy, as http://HOST:PORT"};
    }
    if (scheme != "http") {
      return Error{
          ErrorCode::kInvalidArgument, "proxies that speak " + scheme + " are not supported",
          "name an HTTP proxy, as http://HOST:PORT: what goes through it is encrypted anyway"};
    }
    rest = url.substr(at + 3);
  }
  Proxy proxy;
  const std::size_t end = std::min(rest.find('/'), rest.size());
  const std::size_t user_end = rest.substr(0, end).rfind('@');
  if (user_end != std::string::npos) {
    proxy.authorization = "Basic " + base64(percent_decode(rest.substr(0, user_end)));
    rest.erase(0, user_end + 1);
  }
  const Result<ServerUrl> parsed = parse_server_url("http://" + rest);
  // The URL is not quoted: it may hold a password.
  if (!parsed)
    return Error{ErrorCode::kInvalidArgument, "is no proxy's URL", "as http://HOST:PORT"};
  proxy.host = parsed->host;
  proxy.port = parsed->port;
  return proxy;
}

std::string proxy_from_environment(const ServerUrl& server, const EnvLookup& env) {
  std::string url = first_of(env, server.tls ? "HTTPS_PROXY" : "HTTP_PROXY");
  const std::string host = lower(server.host);
  if (url.empty() || is_loopback(host, address_of(host))) return "";
  return is_excepted(server, first_of(env, "NO_PROXY")) ? "" : url;
}

Result<void> use_proxy_of(const EnvLookup& env, ClientConfig& config) {
  if (!config.proxy_url.empty()) return {};
  const Result<ServerUrl> server = parse_server_url(config.server);
  if (!server) return server.error();
  config.proxy_url = proxy_from_environment(*server, env);
  if (config.proxy_url.empty()) return {};
  const Result<Proxy> proxy = parse_proxy(config.proxy_url);
  if (proxy) return {};
  return Error{ErrorCode::kInvalidArgument,
               std::string(server->tls ? "HTTPS_PROXY: " : "HTTP_PROXY: ") + proxy.error().message,
               proxy.error().hint};
}

Result<void> open_tunnel(int fd, const Proxy& proxy, const std::string& target,
                         Clock::time_point deadline) {
  constexpr std::size_t kMaxHead = 16 * 1024;
  const auto failed = [&proxy](const std::string& why) {
    return Error{ErrorCode::kUnavailable,
                 "the proxy " + proxy.host + ":" + std::to_string(proxy.port) + " " + why, ""};
  };
  std::string request = "CONNECT " + target + " HTTP/1.1\r\nHost: " + target + "\r\n";
  if (!proxy.authorization.empty()) {
    request += "Proxy-Authorization: " + proxy.authorization + "\r\n";
  }
  request += "\r\n";
  std::string_view unsent = request;
  while (!unsent.empty()) {
    if (!wait_for(fd, POLLOUT, deadline)) return failed("does not take the request");
    const ssize_t sent = ::send(fd, unsent.data(), unsent.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent <= 0) return failed("closed the connection");
    unsent.remove_prefix(static_cast<std::size_t>(sent));
  }
  // The server behind the proxy says nothing before we do: all that comes is the proxy's answer.
  std::string head;
  while (head.find("\r\n\r\n") == std::string::npos) {
    std::array<char, 1024> buffer{};
    if (!wait_for(fd, POLLIN, deadline)) return failed("does not answer");
    const ssize_t got = recv(fd, buffer.data(), buffer.size(), MSG_DONTWAIT);
    if (got <= 0 || head.size() > kMaxHead) return failed("closed the connection");
    head.append(buffer.data(), static_cast<std::size_t>(got));
  }
  const std::string line = head.substr(0, head.find("\r\n"));
  const bool agreed = line.starts_with("HTTP/1.") && line.size() > 9 && line[9] == '2';
  if (!agreed) return failed("refused to connect to " + target + ": " + line);
  return {};
}

}  // namespace lockstep::kube

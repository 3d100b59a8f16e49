#include "runtime/hub/http_get.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <optional>

#include <httplib.h>

namespace lockstep::runtime {
namespace {

constexpr time_t kConnectSeconds = 10;
constexpr time_t kReadSeconds = 30;
constexpr std::size_t kMaxBodyBytes = std::size_t{64} << 20;

std::string in_small_letters(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return text;
}

// The first byte that "bytes 100-199/200" brings.
std::optional<int64_t> first_byte(std::string_view content_range) {
  constexpr std::string_view kUnit = "bytes ";
  if (!content_range.starts_with(kUnit)) return std::nullopt;
  content_range.remove_prefix(kUnit.size());
  int64_t begin = 0;
  const auto read =
      std::from_chars(content_range.data(), content_range.data() + content_range.size(), begin);
  return read.ec == std::errc() ? std::optional(begin) : std::nullopt;
}

// Carries one answer into a reply, and its contents to where they belong.
class Reception {
 public:
  Reception(const BodySink* sink, HttpReply& reply) : sink_(sink), reply_(reply) {}

  bool begin(const httplib::Response& head) {
    reply_.status = head.status;
    for (const auto& [name, value] : head.headers) reply_.headers[in_small_letters(name)] = value;
    const bool has_contents = head.status == 200 || head.status == 206;
    to_sink_ = sink_ != nullptr && has_contents;
    if (!to_sink_) return true;
    const std::optional<int64_t> from =
        head.status == 206 ? first_byte(reply_.header("content-range")) : std::optional<int64_t>(0);
    if (!from) reply_.broken = "a part of the contents that does not say which";
    return from && sink_->begin(*from);
  }

  bool take(const char* data, std::size_t size) {
    if (to_sink_) return sink_->take({data, size});
    if (reply_.body.size() + size > kMaxBodyBytes) {
      reply_.broken = "too long an answer";
      reply_.may_pass = false;
      return false;
    }
    reply_.body.append(data, size);
    return true;
  }

 private:
  const BodySink* sink_;
  HttpReply& reply_;
  bool to_sink_ = false;
};

bool is_of_certificate(httplib::Error error) {
  return error == httplib::Error::SSLServerVerification || error == httplib::Error::SSLLoadingCerts;
}

}  // namespace

std::string HttpReply::header(const std::string& name) const {
  const auto found = headers.find(name);
  return found == headers.end() ? "" : found->second;
}

HttpReply http_get(const HttpRequest& request, const ProxySettings& proxies,
                   const std::stop_token& stop) {
  httplib::Client client(request.url.origin());
  client.set_follow_location(false);
  client.set_url_encode(false);  // it is
  client.set_decompress(false);
  client.set_connection_timeout(kConnectSeconds);
  client.set_read_timeout(kReadSeconds);
  client.set_write_timeout(kReadSeconds);
  if (const std::optional<Url> proxy = proxy_for(proxies, request.url)) {
    client.set_proxy(proxy->host, proxy->port);
  }
  httplib::Headers headers = {{"Accept-Encoding", "identity"}, {"User-Agent", "lockstep"}};
  if (!request.token.empty()) headers.emplace("Authorization", "Bearer " + request.token);
  if (request.from_byte > 0) {
    headers.emplace("Range",
                    std::string("bytes=").append(std::to_string(request.from_byte)).append("-"));
  }
  HttpReply reply;
  Reception reception(request.sink, reply);
  const std::stop_callback cancel(stop, [&client] { client.stop(); });
  const httplib::Result result = client.Get(
      request.url.target, headers,
      [&reception](const httplib::Response& head) { return reception.begin(head); },
      [&reception, &stop](const char* data, std::size_t size) {
        return !stop.stop_requested() && reception.take(data, size);
      });
  if (result || !reply.broken.empty()) return reply;
  reply.broken = request.url.host + ": " + httplib::to_string(result.error());
  reply.may_pass = !is_of_certificate(result.error());
  return reply;
}

}  // namespace lockstep::runtime

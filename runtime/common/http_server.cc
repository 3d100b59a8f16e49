#include "runtime/common/http_server.h"

#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include <arpa/inet.h>
#include <civetweb.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

namespace lockstep::common {
namespace {

// CivetWeb only says that it could not listen; the system says why.
Error explain_refusal(const HttpServerOptions& options, const std::string& said) {
  const std::string where = options.address + ":" + std::to_string(options.port);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(options.port));
  if (inet_pton(AF_INET, options.address.c_str(), &address.sin_addr) != 1) {
    return Error{ErrorCode::kInvalidArgument, where + ": not an IPv4 address", ""};
  }
  const int probe = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const int reuse = 1;
  setsockopt(probe, SOL_SOCKET, SO_REUSEADDR, &reuse, sizeof reuse);
  const bool bound =
      bind(probe, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0 &&
      listen(probe, 1) == 0;
  const int why = bound ? 0 : errno;
  close(probe);
  switch (why) {
    case EADDRINUSE:
      return Error{ErrorCode::kAlreadyExists, where + " is in use by another process",
                   "choose another port, or 0 for any free one"};
    case EACCES:
    case EPERM:
      return Error{ErrorCode::kPermissionDenied, where + ": " + std::strerror(why),
                   "choose a port above 1023"};
    case EADDRNOTAVAIL:
      return Error{ErrorCode::kInvalidArgument, where + ": not an address of this host", ""};
    default:
      return Error{ErrorCode::kUnavailable, "cannot serve HTTP on " + where + ": " + said, ""};
  }
}

}  // namespace

HttpServer::HttpServer(std::map<std::string, HttpHandler> routes) : routes_(std::move(routes)) {}

HttpServer::~HttpServer() {
  if (context_ != nullptr) mg_stop(context_);
}

Result<std::unique_ptr<HttpServer>> HttpServer::start(HttpServerOptions options) {
  std::unique_ptr<HttpServer> server(new HttpServer(std::move(options.routes)));
  const std::string listen_on = options.address + ":" + std::to_string(options.port);
  const std::string num_threads = std::to_string(options.num_threads);
  const std::array<const char*, 9> settings = {"listening_ports",
                                               listen_on.c_str(),
                                               "num_threads",
                                               num_threads.c_str(),
                                               "request_timeout_ms",
                                               "10000",
                                               "linger_timeout_ms",
                                               "1000",
                                               nullptr};
  mg_callbacks callbacks{};
  callbacks.begin_request = [](mg_connection* connection) {
    return serve(connection, mg_get_user_data(mg_get_context(connection)));
  };
  std::array<char, 256> said{};
  mg_init_data init{&callbacks, server.get(), const_cast<const char**>(settings.data())};
  mg_error_data error{};
  error.text = said.data();
  error.text_buffer_size = said.size();
  server->context_ = mg_start2(&init, &error);
  if (server->context_ == nullptr) return explain_refusal(options, said.data());
  mg_server_port listening{};
  if (mg_get_server_ports(server->context_, 1, &listening) < 1) {
    return Error{ErrorCode::kInternal, "CivetWeb does not tell its port", ""};
  }
  server->port_ = listening.port;
  return server;
}

HttpResponse HttpServer::answer(const std::string& path) const {
  const auto route = routes_.find(path);
  if (route == routes_.end()) return {.status = 404, .body = "not found\n"};
  try {
    return route->second();
  } catch (const std::exception& error) {
    // A thread's top frame: one failed answer must not end the process.
    return {.status = 500, .body = std::string(error.what()) + "\n"};
  }
}

int HttpServer::serve(mg_connection* connection, void* server) {
  const mg_request_info* const request = mg_get_request_info(connection);
  const std::string_view method = request->request_method;
  const HttpResponse response =
      method == "GET" || method == "HEAD"
          ? static_cast<const HttpServer*>(server)->answer(request->local_uri)
          : HttpResponse{.status = 405, .body = "only GET and HEAD\n"};
  mg_printf(connection,
            "HTTP/1.1 %d %s\r\nContent-Type: %s\r\nContent-Length: %zu\r\n"
            "Cache-Control: no-store\r\nConnection: close\r\n\r\n",
            response.status, mg_get_response_code_text(connection, response.status),
            response.content_type.c_str(), response.body.size());
  if (method != "HEAD") mg_write(connection, response.body.data(), response.body.size());
  return response.status;
}

}  // namespace lockstep::common

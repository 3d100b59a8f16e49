// A small HTTP server for /metrics, /healthz and /status. CivetWeb behind it.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>

#include "runtime/common/result.h"

struct mg_connection;
struct mg_context;

namespace lockstep::common {

struct HttpResponse {
  int status = 200;
  std::string content_type = "text/plain; charset=utf-8";
  std::string body;
};

// Called from the server's threads, possibly several at once.
using HttpHandler = std::function<HttpResponse()>;

struct HttpServerOptions {
  std::string address = "0.0.0.0";
  int port = 0;                               // 0 = any free port
  std::map<std::string, HttpHandler> routes;  // exact path -> handler of GET and HEAD; else 404
  int num_threads = 2;
};

// Serves from construction to destruction; the destructor waits for requests under way.
class HttpServer {
 public:
  // Listens and serves. Errors: kAlreadyExists if the port is in use, kPermissionDenied if it may
  // not be opened, kInvalidArgument for an address that is not ours.
  static Result<std::unique_ptr<HttpServer>> start(HttpServerOptions options);
  ~HttpServer();
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;

  // The port it listens on.
  int port() const { return port_; }

 private:
  explicit HttpServer(std::map<std::string, HttpHandler> routes);
  static int serve(mg_connection* connection, void* server);
  HttpResponse answer(const std::string& path) const;

  const std::map<std::string, HttpHandler> routes_;
  mg_context* context_ = nullptr;
  int port_ = 0;
};

}  // namespace lockstep::common

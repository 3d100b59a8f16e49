// An API server in memory with the logs of pods beside it, which it does not have.
#pragma once

#include <functional>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <utility>

#include "operator/kube/client.h"
#include "tests/operator/controller/fake_api_server.h"

namespace lockstep::cli {

// What a stream of `path` says, line by line, and how it ends.
using StreamLog = std::function<std::optional<kube::ApiError>(
    const kube::ResourcePath& path, const std::string& query,
    const std::function<bool(std::string_view)>& on_line)>;

class LogClient final : public kube::Client {
 public:
  using Answer = kube::ApiResult<nlohmann::json>;
  using Client::create;

  // Borrows the server.
  LogClient(control::FakeApiServer& server, StreamLog stream_log)
      : server_(server), stream_log_(std::move(stream_log)) {}

  Answer get(const kube::ResourcePath& path) override { return server_.get(path); }
  Answer list(const kube::ResourcePath& path, const kube::ListOptions& options,
              std::stop_token stop) override {
    return server_.list(path, options, stop);
  }
  Answer create(const kube::ResourcePath& path, const nlohmann::json& body,
                kube::Warnings& warnings) override {
    return server_.create(path, body, warnings);
  }
  Answer replace(const kube::ResourcePath& path, const nlohmann::json& body) override {
    return server_.replace(path, body);
  }
  Answer patch(const kube::ResourcePath& path, kube::PatchType type,
               const nlohmann::json& body) override {
    return server_.patch(path, type, body);
  }
  Answer remove(const kube::ResourcePath& path, const kube::DeleteOptions& options) override {
    return server_.remove(path, options);
  }
  std::optional<kube::ApiError> stream(
      const kube::ResourcePath& path, const std::string& query, std::stop_token /*stop*/,
      const std::function<bool(std::string_view)>& on_line) override {
    return stream_log_(path, query, on_line);
  }

 private:
  control::FakeApiServer& server_;
  const StreamLog stream_log_;
};

}  // namespace lockstep::cli

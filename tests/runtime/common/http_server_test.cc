#include "runtime/common/http_server.h"

#include <chrono>
#include <stdexcept>

#include <gtest/gtest.h>
#include <httplib.h>

#include "runtime/common/status_client.h"

namespace lockstep::common {
namespace {

using std::chrono::seconds;

std::unique_ptr<HttpServer> serve(std::map<std::string, HttpHandler> routes) {
  auto server = HttpServer::start({.address = "127.0.0.1", .port = 0, .routes = std::move(routes)});
  EXPECT_TRUE(server) << server.error().message;
  return std::move(server).value();
}

HttpResponse progress_answer() {
  return {.content_type = "application/json",
          .body = encode(JobProgress{.job = "tiny", .phase = "training", .step = 7})};
}

TEST(HttpServerTest, ServesItsRoutesOnAFreePort) {
  const auto server = serve({{"/healthz", [] { return HttpResponse{.body = "ok\n"}; }}});
  ASSERT_GT(server->port(), 0);
  httplib::Client client("127.0.0.1", server->port());
  const auto found = client.Get("/healthz");
  ASSERT_TRUE(found);
  EXPECT_EQ(found->status, 200);
  EXPECT_EQ(found->body, "ok\n");
  EXPECT_EQ(client.Get("/nothing")->status, 404);
  EXPECT_EQ(client.Post("/healthz")->status, 405);
}

TEST(HttpServerTest, AThrowingHandlerIsAnswered500) {
  const auto server =
      serve({{"/bad", []() -> HttpResponse { throw std::runtime_error("broken"); }}});
  httplib::Client client("127.0.0.1", server->port());
  EXPECT_EQ(client.Get("/bad")->status, 500);
}

TEST(HttpServerTest, PortInUseIsATypedError) {
  const auto first = serve({});
  const auto second = HttpServer::start({.address = "127.0.0.1", .port = first->port()});
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().code, ErrorCode::kAlreadyExists);
  EXPECT_NE(second.error().message.find(std::to_string(first->port())), std::string::npos);
  EXPECT_FALSE(second.error().hint.empty());
}

TEST(HttpServerTest, ForeignAddressIsATypedError) {
  const auto server = HttpServer::start({.address = "nowhere", .port = 0});
  ASSERT_FALSE(server);
  EXPECT_EQ(server.error().code, ErrorCode::kInvalidArgument);
}

TEST(StatusClientTest, FetchesProgress) {
  const auto server = serve({{"/status", progress_answer}});
  const auto progress = fetch_status({.host = "127.0.0.1", .port = server->port()}, seconds(20));
  ASSERT_TRUE(progress) << progress.error().message;
  EXPECT_EQ(progress->job, "tiny");
  EXPECT_EQ(progress->step, 7);
}

TEST(StatusClientTest, SilenceAndNonsenseAreErrors) {
  auto server = serve({{"/status", [] { return HttpResponse{.body = "hello"}; }}});
  const int port = server->port();
  EXPECT_EQ(fetch_status({.host = "127.0.0.1", .port = port}, seconds(20)).error().code,
            ErrorCode::kDataLoss);
  server.reset();
  EXPECT_EQ(fetch_status({.host = "127.0.0.1", .port = port}, seconds(20)).error().code,
            ErrorCode::kUnavailable);
}

}  // namespace
}  // namespace lockstep::common

#include "runtime/launch/pages.h"

#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <thread>
#include <utility>

#include <gtest/gtest.h>
#include <unistd.h>

namespace lockstep::launch {
namespace {

using common::HttpResponse;
using common::HttpServer;

std::unique_ptr<HttpServer> serve_rank(const std::string& rank) {
  const std::string metrics =
      "# HELP lockstep_step Last.\n# TYPE lockstep_step gauge\nlockstep_step{rank=\"" + rank +
      "\"} 7\n";
  auto server = HttpServer::start(
      {.address = "127.0.0.1",
       .port = 0,
       .routes = {{"/status", [rank] { return HttpResponse{.body = "status " + rank}; }},
                  {"/metrics", [metrics] { return HttpResponse{.body = metrics}; }}}});
  return std::move(server).value();
}

// A pod of ranks 4, 5 and 6, of which 6 does not listen. One test, for a server takes two seconds
// to stop.
TEST(PagesTest, RanksAnswerForThemselvesAndTheFirstOneForThePod) {
  const std::string folder = ::testing::TempDir() + "/pages-" + std::to_string(getpid());
  std::filesystem::create_directories(folder);
  std::unique_ptr<HttpServer> four = serve_rank("4");
  std::unique_ptr<HttpServer> five = serve_rank("5");
  std::ofstream(port_file(folder, 4)) << four->port() << "\n";
  std::ofstream(port_file(folder, 5)) << five->port() << "\n";
  const auto routes =
      pod_routes({.first_rank = 4, .num_ranks = 3, .host = "127.0.0.1", .folder = folder});
  const auto get = [&](const std::string& path) { return routes.at(path)(); };

  EXPECT_EQ(get("/healthz").status, 200);
  EXPECT_EQ(get("/status").body, "status 4");
  EXPECT_EQ(get("/status/4").body, "status 4");
  EXPECT_EQ(get("/status/5").body, "status 5");
  EXPECT_EQ(get("/status/5").content_type, "application/json");
  EXPECT_EQ(get("/status/6").status, 503);
  EXPECT_EQ(get("/status/6").body, "rank 6 does not listen\n");
  EXPECT_EQ(get("/metrics").body,
            "# HELP lockstep_step Last.\n# TYPE lockstep_step gauge\n"
            "lockstep_step{rank=\"4\"} 7\nlockstep_step{rank=\"5\"} 7\n"
            "# HELP lockstep_rank_up 1 if the rank answers the launcher of its pod.\n"
            "# TYPE lockstep_rank_up gauge\n"
            "lockstep_rank_up{rank=\"4\"} 1\nlockstep_rank_up{rank=\"5\"} 1\n"
            "lockstep_rank_up{rank=\"6\"} 0\n");

  std::thread stopping([&] { four.reset(); });
  five.reset();
  stopping.join();
  EXPECT_EQ(get("/status/5").status, 503);
  EXPECT_EQ(get("/status").status, 503);
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace lockstep::launch

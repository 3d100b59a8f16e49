// Logs of pods, which are streams of text.
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "operator/kube/http_client.h"
#include "tests/operator/kube/scripted_server.h"

namespace lockstep::kube {
namespace {

using testing::ElementsAre;

std::unique_ptr<Client> client_of(const ScriptedServer& server, HttpClientOptions options = {}) {
  ClientConfig config;
  config.server = server.url();
  auto client = make_http_client(config, std::move(options));
  EXPECT_TRUE(client.has_value());
  return std::move(client).value();
}

std::string chunked(const std::string& data) {
  return "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + std::to_string(data.size()) +
         "\r\n" + data + "\r\n0\r\n\r\n";
}

TEST(HttpLogTest, TheLastLineOfALogMayLackItsEndAndOfAWatchMayNot) {
  const std::string answer = chunked("one\ntwo");
  ScriptedServer server({{answer, true}, {answer, true}});
  const auto client = client_of(server);
  std::vector<std::string> lines;
  const auto take = [&lines](std::string_view line) {
    lines.emplace_back(line);
    return true;
  };
  const ResourcePath log{{"", "v1", "pods"}, "ns", "a", "log"};
  EXPECT_FALSE(client->stream(log, "container=trainer", {}, take).has_value());
  EXPECT_THAT(lines, ElementsAre("one", "two"));
  EXPECT_FALSE(
      client->stream({{"", "v1", "pods"}, "ns", "", ""}, "watch=true", {}, take).has_value());
  EXPECT_THAT(lines, ElementsAre("one", "two", "one"));
}

}  // namespace
}  // namespace lockstep::kube

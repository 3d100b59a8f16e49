// Writes that must not go out any more.
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

using nlohmann::json;
using testing::HasSubstr;
using testing::Not;

const ResourcePath kObject{{"", "v1", "configmaps"}, "ns", "a", ""};

std::unique_ptr<Client> client_of(const ScriptedServer& server, HttpClientOptions options = {}) {
  ClientConfig config;
  config.server = server.url();
  auto client = make_http_client(config, std::move(options));
  EXPECT_TRUE(client.has_value());
  return std::move(client).value();
}

const ApiError& error_of(const ApiResult<json>& result) {
  return std::get<ApiError>(result);
}

TEST(HttpFenceTest, WritesAreNotSentWhileTheFenceIsClosedAndReadsAre) {
  ScriptedServer server({{http_answer(200, "{}")}});
  HttpClientOptions options;
  options.may_write = [] { return false; };
  const auto client = client_of(server, options);
  const std::vector<ApiResult<json>> results{
      client->create(kObject, json::object()), client->replace(kObject, json::object()),
      client->patch(kObject, PatchType::kMerge, json::object()), client->remove(kObject, {})};
  for (const ApiResult<json>& result : results) {
    EXPECT_EQ(error_of(result).reason, kFencedReason);
    EXPECT_EQ(error_of(result).error.hint, "") << "its outcome is known: nothing was done";
  }
  EXPECT_EQ(server.num_connections(), 0);
  EXPECT_TRUE(std::holds_alternative<json>(client->get(kObject)));
}

TEST(HttpFenceTest, AWriteWhoseFenceClosesWhileItConnectsLacksItsBody) {
  ScriptedServer server({{http_answer(201, "{}")}, {http_answer(201, "{}")}});
  int asked = 0;
  HttpClientOptions options;
  options.may_write = [&asked] { return ++asked != 2; };  // open when the call begins, then not
  const auto client = client_of(server, options);
  EXPECT_EQ(error_of(client->create(kObject, {{"x", 1}})).reason, kFencedReason);
  EXPECT_EQ(asked, 2);
  EXPECT_TRUE(std::holds_alternative<json>(client->create(kObject, {{"x", 2}})));
  const std::vector<std::string> requests = server.requests();
  EXPECT_THAT(requests.back(), HasSubstr("\r\n\r\n{\"x\":2}"));
  EXPECT_THAT(requests.back(), HasSubstr("Content-Length: 7\r\n"));
  EXPECT_THAT(requests, Not(testing::Contains(HasSubstr("{\"x\":1}"))));
}

}  // namespace
}  // namespace lockstep::kube

#include "operator/kube/http_client.h"

#include <atomic>
#include <condition_variable>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "operator/kube/line_splitter.h"
#include "tests/operator/kube/scripted_server.h"

namespace lockstep::kube {
namespace {

using common::ErrorCode;
using nlohmann::json;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::StartsWith;

const ResourcePath kObject{{"", "v1", "configmaps"}, "ns", "a", ""};
const ResourcePath kAll{{"", "v1", "configmaps"}, "", "", ""};

std::unique_ptr<Client> client_of(const ScriptedServer& server, HttpClientOptions options = {}) {
  ClientConfig config;
  config.server = server.url() + "/prefix/";
  config.token = "tok";
  auto client = make_http_client(config, std::move(options));
  EXPECT_TRUE(client.has_value());
  return std::move(client).value();
}

const ApiError& error_of(const ApiResult<json>& result) {
  return std::get<ApiError>(result);
}

std::string chunk(const std::string& data) {
  constexpr const char* kHex = "0123456789abcdef";
  std::string size;
  for (std::size_t n = data.size(); n > 0; n /= 16) size.insert(size.begin(), kHex[n % 16]);
  return size + "\r\n" + data + "\r\n";
}
constexpr const char* kChunkedHead =
    "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n";

TEST(HttpClientTest, TellsWhatTheServerWarnsOfWhenItCreates) {
  const std::string of_many_bytes(5000, 'x');
  ScriptedServer server(
      {{http_answer(201, "{}",
                    "Warning: 299 - \"a \\\"b\\\", c\", 110 - \"stale\"\r\n"
                    "warning: 299 - \"100% of it\" \"Wed, 21 Oct 2015 07:28:00 GMT\"\r\n"
                    "WARNING: 299 - \"a \\\"b\\\", c\"\r\n")},
       {http_answer(403, "{}", "Warning: 299 - \"of a refusal\"\r\n")},
       {http_answer(201, "{}", "Warning: 299 - \"" + of_many_bytes + "\"\r\n")},
       {http_answer(201, "{}", "Warning: nonsense\r\n")}});
  const auto client = client_of(server);
  Warnings warnings;
  EXPECT_TRUE(std::holds_alternative<json>(client->create(kObject, json::object(), warnings)));
  EXPECT_THAT(warnings, ElementsAre("a \"b\", c", "100% of it"));
  warnings.clear();
  EXPECT_EQ(error_of(client->create(kObject, json::object(), warnings)).http_status, 403);
  EXPECT_THAT(warnings, ElementsAre("of a refusal"));
  warnings.clear();
  EXPECT_TRUE(std::holds_alternative<json>(client->create(kObject, json::object(), warnings)));
  ASSERT_THAT(warnings, ElementsAre(of_many_bytes.substr(0, 1021) + "..."));
  warnings.clear();
  EXPECT_TRUE(std::holds_alternative<json>(client->create(kObject, json::object(), warnings)));
  EXPECT_THAT(warnings, testing::IsEmpty());
}

TEST(HttpClientTest, SendsPathTokenAndAgentAndReusesItsConnection) {
  ScriptedServer server({{http_answer(200, R"({"kind":"ConfigMap"})")}, {http_answer(201, "{}")}});
  const auto client = client_of(server);
  EXPECT_EQ(std::get<json>(client->get(kObject))["kind"], "ConfigMap");
  EXPECT_TRUE(std::holds_alternative<json>(client->create(kObject, {{"x", 1}})));
  const std::vector<std::string> requests = server.requests();
  ASSERT_EQ(requests.size(), 2U);
  EXPECT_THAT(requests[0],
              StartsWith("GET /prefix/api/v1/namespaces/ns/configmaps/a HTTP/1.1\r\n"));
  EXPECT_THAT(requests[0], HasSubstr("Authorization: Bearer tok\r\n"));
  EXPECT_THAT(requests[0], HasSubstr("User-Agent: lockstep-operator\r\n"));
  EXPECT_THAT(requests[1],
              StartsWith("POST /prefix/api/v1/namespaces/ns/configmaps"
                         "?fieldValidation=Strict&fieldManager=lockstep-operator HTTP/1.1\r\n"));
  EXPECT_THAT(requests[1], HasSubstr("\r\n\r\n{\"x\":1}"));
  EXPECT_EQ(server.num_connections(), 1);
}

TEST(HttpClientTest, RefusalsAreDecoded) {
  ScriptedServer server({{http_answer(
      429, R"({"kind":"Status","reason":"TooManyRequests","message":"busy","code":429})",
      "Retry-After: 5\r\n")}});
  const auto result = client_of(server)->replace(kObject, json::object());
  EXPECT_EQ(error_of(result).http_status, 429);
  EXPECT_EQ(error_of(result).error.message, "busy");
  EXPECT_EQ(error_of(result).retry_after, std::chrono::seconds(5));
}

TEST(HttpClientTest, AReadWhoseConnectionIsClosedIsSentOnceMore) {
  ScriptedServer server({{"", true}, {http_answer(200, "{}")}});
  EXPECT_TRUE(std::holds_alternative<json>(client_of(server)->get(kObject)));
  EXPECT_EQ(server.requests().size(), 2U);
}

TEST(HttpClientTest, AReadIsSentTwiceAtMost) {
  ScriptedServer server({{"", true}, {"", true}, {http_answer(200, "{}")}});
  EXPECT_EQ(error_of(client_of(server)->get(kObject)).http_status, 0);
  EXPECT_EQ(server.requests().size(), 2U);
}

TEST(HttpClientTest, AWriteWithoutAnswerIsSentOnceAndItsOutcomeIsUnknown) {
  ScriptedServer server({{"", true}, {"", true}, {"", true}, {"", true}});
  const auto client = client_of(server);
  const std::vector<ApiResult<json>> results{
      client->create(kObject, json::object()), client->replace(kObject, json::object()),
      client->patch(kObject, PatchType::kMerge, json::object()), client->remove(kObject, {})};
  for (const ApiResult<json>& result : results) {
    EXPECT_EQ(error_of(result).http_status, 0);
    EXPECT_EQ(error_of(result).error.code, ErrorCode::kUnavailable);
    EXPECT_THAT(error_of(result).error.hint, HasSubstr("unknown"));
  }
  EXPECT_EQ(server.requests().size(), 4U);
}

TEST(HttpClientTest, AnIdleConnectionThatTheServerClosedIsNotUsedForAWrite) {
  ScriptedServer server({{http_answer(200, "{}"), true}, {http_answer(201, "{}")}});
  const auto client = client_of(server);
  EXPECT_TRUE(std::holds_alternative<json>(client->get(kObject)));
  while (server.num_closed() == 0) std::this_thread::yield();
  EXPECT_TRUE(std::holds_alternative<json>(client->create(kObject, json::object())));
  EXPECT_EQ(server.num_connections(), 2);
}

TEST(HttpClientTest, AServerThatStaysSilentTimesOutWithoutARepetition) {
  ScriptedServer server({{"", false, true}, {http_answer(200, "{}")}});
  HttpClientOptions options;
  options.request_timeout = std::chrono::milliseconds(100);
  const auto result = client_of(server, options)->get(kObject);
  EXPECT_THAT(error_of(result).error.message, HasSubstr("timed out"));
  EXPECT_EQ(server.requests().size(), 1U);
}

TEST(HttpClientTest, ARefusedConnectionAndAnswersThatAreNotJsonAreErrors) {
  std::string closed_url;
  {
    ScriptedServer server({{http_answer(200, "hello")}});
    EXPECT_THAT(error_of(client_of(server)->get(kObject)).error.message, HasSubstr("not JSON"));
    closed_url = server.url();
  }
  ClientConfig config;
  config.server = closed_url;
  const auto client = make_http_client(config, {});
  ASSERT_TRUE(client.has_value());
  EXPECT_EQ(error_of((*client)->get(kObject)).error.code, ErrorCode::kUnavailable);
}

TEST(HttpClientTest, BadSettingsAreRefusedBeforeTheFirstCall) {
  ClientConfig config;
  config.server = "10.0.0.1";
  EXPECT_FALSE(make_http_client(config, {}).has_value());
  config.server = "https://10.0.0.1";
  config.tls.ca_pem = "nonsense";
  const auto client = make_http_client(config, {});
  ASSERT_FALSE(client.has_value());
  EXPECT_THAT(client.error().message, StartsWith("certificate authority holds no PEM certificate"));
}

TEST(HttpClientTest, AListInFlightIsGivenUpByItsStopTokenAndAWriteByTheClients) {
  ScriptedServer server({{"", false, true}});
  const auto client = client_of(server);
  ApiResult<json> listed = json();
  {
    const std::jthread reader(
        [&](const std::stop_token& stop) { listed = client->list(kAll, {}, stop); });
    while (server.requests().empty()) std::this_thread::yield();
  }
  EXPECT_EQ(error_of(listed).http_status, 0);

  ScriptedServer silent({{"", false, true}});
  std::stop_source stop;
  HttpClientOptions options;
  options.stop = stop.get_token();
  const auto stoppable = client_of(silent, options);
  ApiResult<json> created = json();
  {
    const std::jthread writer([&] { created = stoppable->create(kObject, json::object()); });
    while (silent.requests().empty()) std::this_thread::yield();
    stop.request_stop();
  }
  EXPECT_EQ(error_of(created).http_status, 0);
  EXPECT_THAT(error_of(created).error.hint, HasSubstr("unknown"));
}

// A folder of its own, deleted at the end.
class Folder {
 public:
  Folder() {
    std::string name = testing::TempDir() + "kube-XXXXXX";
    path_ = mkdtemp(name.data());
  }
  ~Folder() { std::filesystem::remove_all(path_); }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  std::string write(const std::string& name, const std::string& text) const {
    std::ofstream(path_ + "/" + name) << text;
    return path_ + "/" + name;
  }

 private:
  std::string path_;
};

TEST(HttpClientTest, ACallRefusedOnARotatedTokenGoesOutAgainOnTheNewOne) {
  const std::string refused = http_answer(401, R"({"kind":"Status","code":401})");
  ScriptedServer server({{http_answer(200, "{}")}, {refused}, {http_answer(201, "{}")}, {refused}});
  const Folder folder;
  ClientConfig config;
  config.server = server.url();
  config.token_file = folder.write("token", "one");
  const auto client = make_http_client(config, {});
  ASSERT_TRUE(client.has_value());
  EXPECT_TRUE(std::holds_alternative<json>((*client)->get(kObject)));
  folder.write("token", "two");
  EXPECT_TRUE(std::holds_alternative<json>((*client)->create(kObject, json::object())));
  // The same token again would be refused again.
  EXPECT_EQ(error_of((*client)->create(kObject, json::object())).http_status, 401);
  const std::vector<std::string> requests = server.requests();
  ASSERT_EQ(requests.size(), 4U);
  EXPECT_THAT(requests[1], HasSubstr("Bearer one"));
  EXPECT_THAT(requests[2], HasSubstr("Bearer two"));
}

// The name to verify is another than the one to connect to: the proxy is asked for the latter.
TEST(HttpClientTest, AProxyIsAskedForATunnelAndItsRefusalIsTold) {
  ScriptedServer proxy({{"HTTP/1.1 407 Proxy Authentication Required\r\n\r\n", true}});
  ClientConfig config;
  config.server = "https://api.example.invalid:6443";
  config.tls.server_name = "kubernetes";
  config.proxy_url = "http://me:p%40ss@" + proxy.url().substr(7);
  const auto client = make_http_client(config, {});
  ASSERT_TRUE(client.has_value());
  const ApiError error = error_of((*client)->create(kObject, json::object()));
  EXPECT_EQ(error.http_status, 0);
  EXPECT_THAT(error.error.message,
              HasSubstr("refused to connect to api.example.invalid:6443: HTTP/1.1 407 Proxy"));
  ASSERT_EQ(proxy.requests().size(), 1U);
  EXPECT_THAT(proxy.requests()[0], StartsWith("CONNECT api.example.invalid:6443 HTTP/1.1\r\n"
                                              "Host: api.example.invalid:6443\r\n"
                                              "Proxy-Authorization: Basic bWU6cEBzcw==\r\n\r\n"));
}

TEST(HttpClientTest, ASilentProxyTimesOut) {
  ScriptedServer proxy({{"", false, true}});
  ClientConfig config;
  config.server = "https://api.example.invalid:6443";
  config.proxy_url = proxy.url();
  HttpClientOptions options;
  options.connect_timeout = std::chrono::milliseconds(50);
  const auto client = make_http_client(config, options);
  ASSERT_TRUE(client.has_value());
  EXPECT_THAT(error_of((*client)->get(kObject)).error.message, HasSubstr("does not answer"));
}

TEST(HttpClientTest, AServerWithoutTlsIsAskedForThroughItsProxyByUrl) {
  ScriptedServer proxy({{http_answer(200, "{}")}});
  ClientConfig config;
  config.server = "http://api.example.invalid:8080/prefix";
  config.proxy_url = "http://me@" + proxy.url().substr(7);
  const auto client = make_http_client(config, {});
  ASSERT_TRUE(client.has_value());
  EXPECT_TRUE(std::holds_alternative<json>((*client)->get(kObject)));
  EXPECT_THAT(proxy.requests()[0],
              StartsWith("GET http://api.example.invalid:8080/prefix/api/v1/namespaces/ns"));
  EXPECT_THAT(proxy.requests()[0], HasSubstr("Proxy-Authorization: Basic bWU=\r\n"));
}

TEST(HttpClientTest, APluginThatFailsIsTheErrorOfTheCall) {
  ScriptedServer server({});
  ClientConfig config;
  config.server = server.url();
  config.exec = ExecPlugin{.where = "users[u].user.exec",
                           .command = "sh",
                           .args = {"-c", "echo the session has expired >&2; exit 3"},
                           .install_hint = "log in"};
  const auto client = make_http_client(config, {});
  ASSERT_TRUE(client.has_value());
  const ApiError error = error_of((*client)->get(kObject));
  EXPECT_EQ(error.error.code, ErrorCode::kPermissionDenied);
  EXPECT_EQ(error.error.message, "users[u].user.exec: `sh` exited with 3: the session has expired");
  EXPECT_EQ(error.error.hint, "log in");
  EXPECT_TRUE(server.requests().empty());
}

TEST(HttpClientTest, RequestsAreObserved) {
  ScriptedServer server({{http_answer(200, "{}")}, {"", true}});
  HttpClientOptions options;
  std::vector<std::string> seen;
  options.observer.on_request = [&](std::string_view method, std::string_view code,
                                    const std::string&, std::chrono::duration<double>) {
    seen.push_back(std::string(method) + " " + std::string(code));
  };
  const auto client = client_of(server, options);
  client->get(kObject);
  client->remove(kObject, {});
  EXPECT_THAT(seen, ElementsAre("GET 200", "DELETE <error>"));
}

TEST(HttpClientTest, StreamsLinesHoweverTheyAreCut) {
  ScriptedServer server(
      {{kChunkedHead + chunk("one\ntw") + chunk("o\r\n\n") + chunk("three\n") + "0\r\n\r\n"}});
  std::vector<std::string> lines;
  const auto error = client_of(server)->stream(kAll, "watch=true", {}, [&](std::string_view line) {
    lines.emplace_back(line);
    return true;
  });
  EXPECT_FALSE(error.has_value());
  EXPECT_THAT(lines, ElementsAre("one", "two", "three"));
  EXPECT_THAT(server.requests()[0],
              StartsWith("GET /prefix/api/v1/configmaps?watch=true HTTP/1.1"));
}

TEST(HttpClientTest, AStreamThatIsCutIsAnErrorAfterItsLines) {
  ScriptedServer server({{kChunkedHead + chunk("one\n") + "7\r\ntw", true}});
  int num_lines = 0;
  const auto error = client_of(server)->stream(kAll, "", {}, [&](std::string_view) {
    ++num_lines;
    return true;
  });
  ASSERT_TRUE(error.has_value());
  EXPECT_EQ(error->http_status, 0);
  EXPECT_EQ(num_lines, 1);
}

TEST(HttpClientTest, ARefusedStreamIsDecoded) {
  ScriptedServer server(
      {{http_answer(410, R"({"kind":"Status","reason":"Expired","message":"old","code":410})")}});
  const auto error = client_of(server)->stream(kAll, "", {}, [](std::string_view) { return true; });
  ASSERT_TRUE(error.has_value());
  EXPECT_EQ(error->error.code, ErrorCode::kGone);
  EXPECT_EQ(error->error.message, "old");
}

TEST(HttpClientTest, AStreamEndsCleanlyWhenItsReaderHasEnough) {
  ScriptedServer server({{kChunkedHead + chunk("one\ntwo\n"), false, true}});
  int num_lines = 0;
  EXPECT_FALSE(client_of(server)
                   ->stream(kAll, "", {}, [&](std::string_view) { return ++num_lines > 1; })
                   .has_value());
  EXPECT_EQ(num_lines, 1);
}

// The server goes silent before its headers, and after its first line.
TEST(HttpClientTest, ASilentStreamIsCancelledByItsStopToken) {
  for (const std::string& bytes : {std::string(), kChunkedHead + chunk("one\n")}) {
    ScriptedServer server({{bytes, false, true}});
    const auto client = client_of(server);
    std::optional<ApiError> error;
    {
      std::jthread reader([&](const std::stop_token& stop) {
        error =
            client->stream(kAll, "timeoutSeconds=300", stop, [](std::string_view) { return true; });
      });
      while (server.requests().empty()) std::this_thread::yield();
    }
    EXPECT_FALSE(error.has_value());
  }
}

TEST(LineSplitterTest, ALineThatGrowsTooLongEndsTheStream) {
  LineSplitter lines(8);
  const auto accept = [](std::string_view) { return true; };
  EXPECT_TRUE(lines.feed("1234", accept));
  EXPECT_FALSE(lines.feed("56789", accept));
  EXPECT_TRUE(lines.is_too_long());
}

}  // namespace
}  // namespace lockstep::kube

// Every socket to an API server, or to a proxy before it, notices a dead peer by itself.
#include <chrono>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <arpa/inet.h>
#include <dirent.h>
#include <gtest/gtest.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include "operator/kube/http_client.h"
#include "tests/operator/kube/scripted_server.h"

namespace lockstep::kube {
namespace {

const ResourcePath kObject{{"", "v1", "configmaps"}, "ns", "a", ""};

// Descriptors of this process that are connected to `port`.
std::vector<int> sockets_to(int port) {
  std::vector<int> found;
  const std::unique_ptr<DIR, int (*)(DIR*)> folder(opendir("/proc/self/fd"), closedir);
  while (const dirent* entry = readdir(folder.get())) {
    const int fd = std::atoi(entry->d_name);
    sockaddr_in peer{};
    socklen_t size = sizeof peer;
    if (getpeername(fd, reinterpret_cast<sockaddr*>(&peer), &size) != 0) continue;
    if (peer.sin_family == AF_INET && ntohs(peer.sin_port) == port) found.push_back(fd);
  }
  return found;
}

int port_of(const ScriptedServer& server) {
  return std::stoi(server.url().substr(server.url().rfind(':') + 1));
}

std::map<std::string, int> options_of(int fd) {
  std::map<std::string, int> options;
  const auto read = [&](const char* name, int level, int option) {
    int value = -1;
    socklen_t size = sizeof value;
    EXPECT_EQ(getsockopt(fd, level, option, &value, &size), 0) << name;
    options[name] = value;
  };
  read("keep-alive", SOL_SOCKET, SO_KEEPALIVE);
  read("idle seconds", IPPROTO_TCP, TCP_KEEPIDLE);
  read("interval seconds", IPPROTO_TCP, TCP_KEEPINTVL);
  read("probes", IPPROTO_TCP, TCP_KEEPCNT);
  read("unacknowledged milliseconds", IPPROTO_TCP, TCP_USER_TIMEOUT);
  read("no delay", IPPROTO_TCP, TCP_NODELAY);
  return options;
}

// Blocks until there is a socket to the server; all of them have limits of 30 s.
void expect_limits(const ScriptedServer& server) {
  const std::map<std::string, int> expected{
      {"keep-alive", 1}, {"idle seconds", 15}, {"interval seconds", 5},
      {"probes", 3},     {"no delay", 1},      {"unacknowledged milliseconds", 30'000}};
  std::vector<int> sockets;
  for (int i = 0; i < 10'000 && sockets.empty(); ++i) {  // of liveness: 10 s
    sockets = sockets_to(port_of(server));
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  ASSERT_FALSE(sockets.empty());
  for (const int fd : sockets) EXPECT_EQ(options_of(fd), expected);
}

std::unique_ptr<Client> client_of(const std::string& server, const std::string& proxy = "") {
  ClientConfig config;
  config.server = server;
  config.proxy_url = proxy;
  return std::move(make_http_client(config, {})).value();
}

TEST(SocketOptionsTest, OfRequestsAreSet) {
  ScriptedServer server({{http_answer(200, "{}")}});
  const auto client = client_of(server.url());
  client->get(kObject);
  expect_limits(server);  // of the idle connection
}

TEST(SocketOptionsTest, OfWatchesAreSet) {
  ScriptedServer server(
      {{"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\none\n\r\n", false, true}});
  const auto client = client_of(server.url());
  int calls = 0;
  const std::optional<ApiError> error =
      client->stream(kObject, "watch=true", {}, [&](std::string_view line) {
        EXPECT_EQ(line, "one");
        expect_limits(server);
        ++calls;
        return false;
      });
  EXPECT_FALSE(error.has_value()) << error->error.message;
  EXPECT_EQ(calls, 1);
}

TEST(SocketOptionsTest, OfProxiesAndTunnelsAreSet) {
  ScriptedServer proxy({{http_answer(200, "{}")}});
  const auto plain = client_of("http://api.example.invalid:8080", proxy.url());
  plain->get(kObject);
  expect_limits(proxy);

  ScriptedServer tunnel({{"", false, true}});  // takes the CONNECT and says nothing
  const auto secure = client_of("https://api.example.invalid:6443", tunnel.url());
  std::stop_source stop;
  const std::jthread caller([&] {
    secure->list({{"", "v1", "pods"}, "", "", ""}, {}, stop.get_token());
  });
  expect_limits(tunnel);
  stop.request_stop();
}

}  // namespace
}  // namespace lockstep::kube

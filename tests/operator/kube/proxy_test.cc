#include "operator/kube/proxy.h"

#include <map>
#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace lockstep::kube {
namespace {

EnvLookup env(std::map<std::string, std::string> values) {
  return [values = std::move(values)](const std::string& name) -> std::optional<std::string> {
    const auto it = values.find(name);
    if (it == values.end()) return std::nullopt;
    return it->second;
  };
}

ServerUrl server(const std::string& url) {
  return parse_server_url(url).value();
}

TEST(ProxyTest, ParsesHostPortAndUser) {
  const Proxy plain = parse_proxy("proxy:3128").value();
  EXPECT_EQ(plain.host, "proxy");
  EXPECT_EQ(plain.port, 3128);
  EXPECT_EQ(plain.authorization, "");
  const Proxy with_user = parse_proxy("http://user:p%40ss@[::1]:8080/").value();
  EXPECT_EQ(with_user.host, "::1");
  EXPECT_EQ(with_user.port, 8080);
  EXPECT_EQ(with_user.authorization, "Basic dXNlcjpwQHNz");
  EXPECT_EQ(parse_proxy("HTTP://proxy").value().port, 80);
}

TEST(ProxyTest, RefusesByNameAndNeverQuotesAPassword) {
  const std::vector<std::pair<std::string, std::string>> cases{
      {"socks5://h:1", "SOCKS proxies are not supported"},
      {"SOCKS5H://h:1", "SOCKS proxies are not supported"},
      {"https://h:1", "proxies that speak https are not supported"},
      {"ftp://h:1", "proxies that speak ftp are not supported"},
      {"http://u:secret@h:x", "is no proxy's URL"},
      {"http://", "is no proxy's URL"},
  };
  for (const auto& [url, message] : cases) {
    const auto proxy = parse_proxy(url);
    ASSERT_FALSE(proxy.has_value()) << url;
    EXPECT_EQ(proxy.error().message, message);
    EXPECT_EQ(proxy.error().hint.find("secret"), std::string::npos);
  }
}

TEST(ProxyTest, TheEnvironmentNamesItByScheme) {
  const EnvLookup both = env({{"HTTPS_PROXY", "http://s"}, {"http_proxy", "http://p"}});
  EXPECT_EQ(proxy_from_environment(server("https://h"), both), "http://s");
  EXPECT_EQ(proxy_from_environment(server("http://h"), both), "http://p");
  EXPECT_EQ(proxy_from_environment(server("https://h"), env({})), "");
  for (const char* loopback : {"https://localhost", "https://127.0.0.9:6443", "https://[::1]"}) {
    EXPECT_EQ(proxy_from_environment(server(loopback), both), "") << loopback;
  }
}

TEST(ProxyTest, NoProxyExceptsHostsDomainsAddressesAndNetworks) {
  struct Case {
    std::string no_proxy;
    std::string url;
    bool direct;
  };
  const std::vector<Case> cases{
      {"*", "https://h", true},
      {"h", "https://h:6443", true},
      {"H", "https://h", true},
      {"h:6443", "https://h:6443", true},
      {"h:1", "https://h:6443", false},
      {"example.com", "https://api.example.com", true},
      {"example.com", "https://example.com", true},
      {".example.com", "https://api.example.com", true},
      {".example.com", "https://example.com", false},
      {"*.example.com", "https://api.example.com", true},
      {"example.com", "https://myexample.com", false},
      {"a, ,h", "https://h", true},
      {"10.0.0.0/8", "https://10.9.8.7", true},
      {"10.0.0.0/8", "https://11.0.0.1", false},
      {"10.0.0.0/33", "https://10.0.0.1", false},
      {"10.0.0.0/x", "https://10.0.0.1", false},
      {"10.0.0.0/8", "https://h", false},
      {"10.1.2.3", "https://10.1.2.3", true},
      {"10.1.2.3:6443", "https://10.1.2.3:6443", true},
      {"fd00::/16", "https://[fd00::1]", true},
      {"fd00::1", "https://[fd00::1]", true},
      {"[fd00::1]:6443", "https://[fd00::1]:6443", true},
      {"fd00::/16", "https://10.0.0.1", false},
  };
  for (const Case& c : cases) {
    const EnvLookup lookup = env({{"HTTPS_PROXY", "http://p"}, {"NO_PROXY", c.no_proxy}});
    EXPECT_EQ(proxy_from_environment(server(c.url), lookup).empty(), c.direct)
        << c.no_proxy << " " << c.url;
  }
}

}  // namespace
}  // namespace lockstep::kube

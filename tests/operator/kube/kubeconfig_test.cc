#include "operator/kube/kubeconfig.h"

#include <map>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "operator/kube/in_cluster.h"
#include "operator/kube/token_source.h"

namespace lockstep::kube {
namespace {

using common::Error;
using common::ErrorCode;
using common::Result;
using Texts = std::map<std::string, std::string>;

FileReader files(Texts texts) {
  return [texts = std::move(texts)](const std::string& path) -> Result<std::string> {
    const auto it = texts.find(path);
    if (it == texts.end())
      return Error{ErrorCode::kNotFound, path + ": cannot be read: absent", ""};
    return it->second;
  };
}

EnvLookup env(Texts values) {
  return [values = std::move(values)](const std::string& name) -> std::optional<std::string> {
    const auto it = values.find(name);
    if (it == values.end()) return std::nullopt;
    return it->second;
  };
}

// A kubeconfig with one of each; `cluster` and `user` are the bodies of the entries.
std::string config_of(const std::string& cluster, const std::string& user) {
  return "apiVersion: v1\nkind: Config\ncurrent-context: c\n"
         "contexts: [{name: c, context: {cluster: k, user: u, namespace: team}}]\n"
         "clusters: [{name: k, cluster: {" +
         cluster +
         "}}]\n"
         "users: [{name: u, user: {" +
         user + "}}]\n";
}

Result<ClientConfig> resolve(const std::string& text, const Texts& others = {}) {
  return resolve_kubeconfig({{"/home/u/config", text}}, "", files(others));
}

TEST(KubeconfigTest, PathsFollowClientGo) {
  using Paths = std::vector<std::string>;
  const EnvLookup both = env({{"KUBECONFIG", "/a::/b:/a"}, {"HOME", "/home/u"}});
  EXPECT_EQ(kubeconfig_paths("/x", both), Paths{"/x"});
  EXPECT_EQ(kubeconfig_paths("", both), (Paths{"/a", "/b"}));
  EXPECT_EQ(kubeconfig_paths("", env({{"HOME", "/home/u"}})), Paths{"/home/u/.kube/config"});
  EXPECT_EQ(kubeconfig_paths("", env({})), Paths{});
}

TEST(KubeconfigTest, ReadsCertificatesFromDataAndFiles) {
  const auto config = resolve(
      config_of("server: 'https://h:1', certificate-authority: ca.crt, tls-server-name: kubernetes",
                "client-certificate-data: Y2VydA==, client-key: /abs/key"),
      {{"/home/u/ca.crt", "authority"}, {"/abs/key", "secret"}});
  ASSERT_TRUE(config.has_value()) << config.error().message;
  EXPECT_EQ(config->server, "https://h:1");
  EXPECT_EQ(config->tls.ca_pem, "authority");
  EXPECT_EQ(config->tls.client_cert_pem, "cert");
  EXPECT_EQ(config->tls.client_key_pem, "secret");
  EXPECT_EQ(config->tls.server_name, "kubernetes");
  EXPECT_EQ(config->ns, "team");
}

TEST(KubeconfigTest, DataBeatsFile) {
  const auto config = resolve(config_of(
      "server: 'https://h', certificate-authority: absent, certificate-authority-data: YWJj", ""));
  ASSERT_TRUE(config.has_value()) << config.error().message;
  EXPECT_EQ(config->tls.ca_pem, "abc");
}

TEST(KubeconfigTest, ReadsTokensAndResolvesTheirFile) {
  const auto config = resolve(
      config_of("server: h:8080, insecure-skip-tls-verify: true", "token: t, tokenFile: tok"));
  ASSERT_TRUE(config.has_value()) << config.error().message;
  EXPECT_EQ(config->server, "http://h:8080");
  EXPECT_TRUE(config->tls.insecure_skip_verify);
  EXPECT_EQ(config->token, "t");
  EXPECT_EQ(config->token_file, "/home/u/tok");
}

TEST(KubeconfigTest, ReadsAnExecPluginAndWhatItIsToldOfTheCluster) {
  const auto config = resolve(
      config_of("server: 'https://h', certificate-authority-data: YWJj, proxy-url: 'http://p:1', "
                "extensions: [{name: client.authentication.k8s.io/exec, extension: {audience: '7', "
                "depth: 2}}]",
                "exec: {command: bin/login, args: [a, 1], env: [{name: X, value: y}], "
                "provideClusterInfo: true, "
                "apiVersion: client.authentication.k8s.io/v1beta1, installHint: get it}"));
  ASSERT_TRUE(config.has_value()) << config.error().message;
  const ExecPlugin& plugin = config->exec.value();
  EXPECT_EQ(plugin.where, "/home/u/config: users[u].user.exec");
  EXPECT_EQ(plugin.command, "/home/u/bin/login");
  EXPECT_EQ(plugin.args, (std::vector<std::string>{"a", "1"}));
  EXPECT_EQ(plugin.env.front(), (std::pair<std::string, std::string>("X", "y")));
  EXPECT_EQ(plugin.install_hint, "get it");
  const nlohmann::json told = {{"server", "https://h"},
                               {"certificate-authority-data", "YWJj"},
                               {"proxy-url", "http://p:1"},
                               {"config", {{"audience", "7"}, {"depth", 2}}}};
  EXPECT_EQ(nlohmann::json::parse(plugin.cluster_json), told);
}

TEST(KubeconfigTest, TheEnvironmentsProxyIsUsedWhereTheClusterNamesNone) {
  const Texts vars{{"KUBECONFIG", "/c"}, {"HTTPS_PROXY", "http://env:3128"}};
  const auto load = [](const Texts& values, const std::string& cluster) {
    return load_kubeconfig({}, env(values), files({{"/c", config_of(cluster, "token: t")}}));
  };
  EXPECT_EQ(load(vars, "server: 'https://h'")->proxy_url, "http://env:3128");
  EXPECT_EQ(load(vars, "server: 'https://h', proxy-url: 'http://own:1'")->proxy_url,
            "http://own:1");
  const auto socks =
      load({{"KUBECONFIG", "/c"}, {"https_proxy", "socks5://p"}}, "server: 'https://h'");
  ASSERT_FALSE(socks.has_value());
  EXPECT_EQ(socks.error().message, "HTTPS_PROXY: SOCKS proxies are not supported");
}

TEST(KubeconfigTest, RemembersWhichFilesToReadAgain) {
  const auto config = resolve(config_of("server: 'https://h', certificate-authority: ca",
                                        "client-certificate: cert, client-key-data: a2V5"),
                              {{"/home/u/ca", "authority"}, {"/home/u/cert", "certificate"}});
  ASSERT_TRUE(config.has_value()) << config.error().message;
  EXPECT_EQ(config->tls.ca_file, "/home/u/ca");
  EXPECT_EQ(config->tls.client_cert_file, "/home/u/cert");
  EXPECT_EQ(config->tls.client_key_file, "");
}

TEST(KubeconfigTest, TheFirstFileToNameAnEntryWinsWhole) {
  const std::string first =
      "current-context: c\nclusters: [{name: k, cluster: {server: 'https://first'}}]\n";
  const std::string second =
      "current-context: other\n"
      "contexts: [{name: c, context: {cluster: k, user: u}}]\n"
      "clusters: [{name: k, cluster: {server: 'https://second', tls-server-name: x}}]\n"
      "users: [{name: u, user: {token: t}}]\n";
  const auto config = resolve_kubeconfig({{"/1", first}, {"/2", second}}, "", files({}));
  ASSERT_TRUE(config.has_value()) << config.error().message;
  EXPECT_EQ(config->server, "https://first");
  EXPECT_EQ(config->tls.server_name, "");
  EXPECT_EQ(config->token, "t");
  EXPECT_EQ(config->ns, "default");
}

TEST(KubeconfigTest, AChosenContextBeatsTheCurrentOne) {
  const std::string text = config_of("server: 'https://h'", "token: t") + "\n# no more\n";
  const auto config = resolve_kubeconfig({{"/1", text}}, "nope", files({}));
  ASSERT_FALSE(config.has_value());
  EXPECT_EQ(config.error().message, "--context: there is no entry 'nope' in contexts");
}

TEST(KubeconfigTest, ErrorsNameFileAndField) {
  struct Case {
    std::string text;
    std::string message;
  };
  const std::string file = "/home/u/config: ";
  const std::string ok = "server: 'https://h'";
  const std::string v1 = "client.authentication.k8s.io/v1";
  const std::string user = file + "users[u].user.";
  const std::string cluster = file + "clusters[k].cluster.";
  const std::vector<Case> cases{
      {config_of(ok, "exec: aws"), user + "exec: must be a map"},
      {config_of(ok, "exec: {apiVersion: " + v1 + "}"), user + "exec.command: is missing"},
      {config_of(ok, "exec: {command: aws, apiVersion: client.authentication.k8s.io/v1alpha1}"),
       user + "exec.apiVersion: 'client.authentication.k8s.io/v1alpha1' is not supported"},
      {config_of(ok, "exec: {command: aws, interactiveMode: Always, apiVersion: " + v1 + "}"),
       user + "exec.interactiveMode: Always is not supported: there is no terminal"},
      {config_of(ok, "exec: {command: aws, apiVersion: " + v1 + "}"),
       user + "exec.interactiveMode: is missing"},
      {config_of(ok,
                 "exec: {command: aws, interactiveMode: Never, args: x, apiVersion: " + v1 + "}"),
       user + "exec.args: must be a list"},
      {config_of(ok,
                 "exec: {command: aws, interactiveMode: Never, env: [x], apiVersion: " + v1 + "}"),
       user + "exec.env: must be a list of names and values"},
      {config_of(ok, "auth-provider: {name: gcp}"), user + "auth-provider: is not supported"},
      {config_of(ok, "username: a, password: b"), user + "username: is not supported"},
      {config_of(ok, "token: t, as: root"), user + "as: is not supported"},
      {config_of(ok + ", proxy-url: 'socks5://p'", ""),
       cluster + "proxy-url: SOCKS proxies are not supported"},
      {config_of(ok + ", proxy-url: 'https://p'", ""),
       cluster + "proxy-url: proxies that speak https are not supported"},
      {config_of("", ""), cluster + "server: is missing"},
      {config_of("server: [a]", ""), cluster + "server: must be a string"},
      {config_of(ok + ", insecure-skip-tls-verify: maybe", ""),
       cluster + "insecure-skip-tls-verify: must be true or false"},
      {config_of(ok + ", insecure-skip-tls-verify: true, certificate-authority-data: YWJj", ""),
       cluster + "insecure-skip-tls-verify: cannot be combined with a certificate authority"},
      {config_of(ok + ", certificate-authority: ca", ""),
       cluster + "certificate-authority: /home/u/ca: cannot be read: absent"},
      {config_of(ok + ", certificate-authority-data: '*'", ""),
       cluster + "certificate-authority-data: is not base64"},
      {config_of(ok, "client-certificate-data: YWJj"),
       user + "client-key: is missing: certificate and key come together"},
      {config_of(ok, "client-key-data: YWJj"),
       user + "client-certificate: is missing: certificate and key come together"},
      {"contexts: []\n", "/home/u/config: current-context: is missing"},
      {"current-context: c\n",
       "/home/u/config: current-context: there is no entry 'c' in contexts"},
      {"current-context: c\ncontexts: [{name: c, context: {cluster: k}}]\n",
       "/home/u/config: contexts[c].context.cluster: there is no entry 'k' in clusters"},
      {"current-context: c\ncontexts: [{name: c, context: {}}]\n",
       "/home/u/config: contexts[c].context.cluster: is missing"},
      {"current-context: c\ncontexts: {}\n", "/home/u/config: contexts: must be a list"},
      {"current-context: c\ncontexts: [{context: {}}]\n",
       "/home/u/config: contexts: has an entry without a name"},
      {"just text", "/home/u/config: is not a kubeconfig"},
  };
  for (const Case& c : cases) {
    const auto config = resolve(c.text);
    ASSERT_FALSE(config.has_value()) << c.message;
    EXPECT_EQ(config.error().message, c.message);
    EXPECT_EQ(config.error().code, ErrorCode::kInvalidArgument);
  }
  EXPECT_NE(resolve("a: [").error().message.find("/home/u/config: "), std::string::npos);
}

TEST(KubeconfigTest, MissingFilesOfTheListAreSkippedButNotTheExplicitOne) {
  const FileReader reader = files({{"/b", config_of("server: 'https://h'", "token: t")}});
  EXPECT_TRUE(load_kubeconfig({}, env({{"KUBECONFIG", "/a:/b"}}), reader).has_value());
  const auto explicit_path = load_kubeconfig({.path = "/a", .context = ""}, env({}), reader);
  ASSERT_FALSE(explicit_path.has_value());
  EXPECT_EQ(explicit_path.error().message, "/a: cannot be read: absent");
  const auto none = load_kubeconfig({}, env({{"KUBECONFIG", "/x:/y"}}), reader);
  ASSERT_FALSE(none.has_value());
  EXPECT_EQ(none.error().code, ErrorCode::kNotFound);
  EXPECT_EQ(none.error().message, "no kubeconfig found at /x, /y");
}

Texts service_account() {
  return {{"/sa/token", " tok\n"}, {"/sa/ca.crt", "pem"}, {"/sa/namespace", "team\n"}};
}

TEST(InClusterTest, ReadsTheServiceAccount) {
  const auto config = load_in_cluster(
      env({{"KUBERNETES_SERVICE_HOST", "fd00::1"}, {"KUBERNETES_SERVICE_PORT", "443"}}),
      files(service_account()), "/sa");
  ASSERT_TRUE(config.has_value()) << config.error().message;
  EXPECT_EQ(config->server, "https://[fd00::1]:443");
  EXPECT_EQ(config->token, "tok");
  EXPECT_EQ(config->token_file, "/sa/token");
  EXPECT_EQ(config->tls.ca_pem, "pem");
  EXPECT_EQ(config->ns, "team");
}

TEST(InClusterTest, NamespaceFallsBackInOrder) {
  Texts vars{{"KUBERNETES_SERVICE_HOST", "10.0.0.1"}, {"KUBERNETES_SERVICE_PORT", "443"}};
  Texts without = service_account();
  without.erase("/sa/namespace");
  EXPECT_EQ(load_in_cluster(env(vars), files(without), "/sa")->ns, "default");
  vars["POD_NAMESPACE"] = "mine";
  EXPECT_EQ(load_in_cluster(env(vars), files(service_account()), "/sa")->ns, "mine");
}

TEST(InClusterTest, ErrorsNameWhatIsMissing) {
  const auto outside = load_in_cluster(env({}), files(service_account()), "/sa");
  ASSERT_FALSE(outside.has_value());
  EXPECT_EQ(outside.error().code, ErrorCode::kNotFound);
  const EnvLookup inside =
      env({{"KUBERNETES_SERVICE_HOST", "10.0.0.1"}, {"KUBERNETES_SERVICE_PORT", "443"}});
  for (const char* name : {"/sa/token", "/sa/ca.crt"}) {
    Texts texts = service_account();
    texts[name] = " \n";
    EXPECT_EQ(load_in_cluster(inside, files(texts), "/sa").error().message,
              std::string(name) + ": is empty");
    texts.erase(name);
    EXPECT_EQ(load_in_cluster(inside, files(texts), "/sa").error().message,
              std::string(name) + ": cannot be read: absent");
  }
}

TEST(TokenSourceTest, ReadsTheFileAtMostEveryFiftySecondsAndAfterARefusal) {
  std::string content = "one\n";
  int num_reads = 0;
  TokenSource source("fixed", "/token", [&](const std::string&) -> Result<std::string> {
    ++num_reads;
    return content;
  });
  const TokenSource::Clock::time_point start{};
  using std::chrono::seconds;
  EXPECT_EQ(source.token(start).value(), "one");
  content = "two";
  EXPECT_EQ(source.token(start + seconds(49)).value(), "one");
  EXPECT_EQ(num_reads, 1);
  EXPECT_EQ(source.token(start + seconds(50)).value(), "two");
  content = "three";
  source.invalidate();
  EXPECT_EQ(source.token(start + seconds(51)).value(), "three");
  content = "";
  EXPECT_EQ(source.token(start + seconds(200)).value(), "three");
}

TEST(TokenSourceTest, WithoutAFileTheFixedTokenIsUsedAndAnUnreadableFileIsAnError) {
  EXPECT_EQ(TokenSource("t", "", files({})).token({}).value(), "t");
  EXPECT_EQ(TokenSource("", "", files({})).token({}).value(), "");
  const auto missing = TokenSource("t", "/token", files({})).token({});
  ASSERT_FALSE(missing.has_value());
  EXPECT_EQ(missing.error().code, ErrorCode::kPermissionDenied);
}

TEST(KubeconfigTest, AnEntryThatIsOnlyANameLacksItsFields) {
  const auto context = resolve("current-context: c\ncontexts: [{name: c}]\n");
  ASSERT_FALSE(context.has_value());
  EXPECT_EQ(context.error().message, "/home/u/config: contexts[c].context.cluster: is missing");
  const auto cluster = resolve(
      "current-context: c\ncontexts: [{name: c, context: {cluster: k}}]\n"
      "clusters: [{name: k}]\n");
  ASSERT_FALSE(cluster.has_value());
  EXPECT_EQ(cluster.error().message, "/home/u/config: clusters[k].cluster.server: is missing");
}

// YAML allows an anchor inside of itself, and aliases of aliases that grow without end.
TEST(KubeconfigTest, RefusesWhatCannotBeToldToAPlugin) {
  const std::string user =
      "exec: {apiVersion: client.authentication.k8s.io/v1beta1, command: p, provideClusterInfo: "
      "true}";
  const std::string name =
      "server: https://h, extensions: [{name: client.authentication.k8s.io/exec, ";
  std::string grown = "extension: [&a0 [x, x]";
  for (int i = 1; i < 30; ++i) {
    const std::string before = "*a" + std::to_string(i - 1);
    grown += ", &a" + std::to_string(i) + " [" + before + ", " + before + "]";
  }
  for (const std::string& endless :
       {std::string("extension: &a [*a]"), std::string("extension: {[k]: v}"), grown + "]"}) {
    const auto config = resolve(config_of(name + endless + "}]", user));
    ASSERT_FALSE(config.has_value());
    EXPECT_EQ(config.error().code, ErrorCode::kInvalidArgument);
    EXPECT_THAT(config.error().message, ::testing::HasSubstr("clusters[k].cluster.extensions"));
  }
  const auto latin = resolve(config_of(name + "extension: \xFC}]", user));
  ASSERT_FALSE(latin.has_value());
  EXPECT_EQ(latin.error().message,
            "/home/u/config: clusters[k].cluster: has a text that is not UTF-8");
}

}  // namespace
}  // namespace lockstep::kube

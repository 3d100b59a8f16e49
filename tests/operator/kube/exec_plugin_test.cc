#include "operator/kube/exec_plugin.h"

#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace lockstep::kube {
namespace {

using common::ErrorCode;
using nlohmann::json;
using std::chrono::seconds;

ExecPlugin shell(const std::string& script) {
  return {.where = "config: users[u].user.exec",
          .command = "sh",
          .args = {"-c", script},
          .api_version = "client.authentication.k8s.io/v1",
          .install_hint = "install it"};
}

std::string answer(const json& status) {
  return json{{"apiVersion", "client.authentication.k8s.io/v1"},
              {"kind", "ExecCredential"},
              {"status", status}}
      .dump();
}

TEST(ExecPluginTest, DecodesTokensCertificatesAndExpiry) {
  const auto token = decode_exec_credential(
      shell(""), answer({{"token", "t"}, {"expirationTimestamp", "2026-01-31T12:00:00Z"}}));
  ASSERT_TRUE(token.has_value()) << token.error().message;
  EXPECT_EQ(token->token, "t");
  EXPECT_EQ(std::chrono::system_clock::to_time_t(*token->expires_at), 1769860800);
  const auto offset = decode_exec_credential(
      shell(""), answer({{"token", "t"}, {"expirationTimestamp", "2026-01-31T13:30:00.25+01:30"}}));
  EXPECT_EQ(offset->expires_at, token->expires_at);
  const auto certificate = decode_exec_credential(
      shell(""), answer({{"clientCertificateData", "c"}, {"clientKeyData", "k"}}));
  EXPECT_EQ(certificate->client_cert_pem, "c");
  EXPECT_EQ(certificate->client_key_pem, "k");
  EXPECT_FALSE(certificate->expires_at.has_value());
}

TEST(ExecPluginTest, AnAnswerThatIsNoCredentialIsRefused) {
  const std::string prefix = "config: users[u].user.exec: `sh` ";
  const std::vector<std::pair<std::string, std::string>> cases{
      {"nonsense", "did not print an ExecCredential"},
      {"{}", "did not print an ExecCredential"},
      {R"({"kind":"ExecCredential","apiVersion":"client.authentication.k8s.io/v1beta1"})",
       "answered with apiVersion 'client.authentication.k8s.io/v1beta1' to "
       "'client.authentication.k8s.io/v1'"},
      {answer(nullptr), "gave no status"},
      {answer(json::object()), "gave neither token nor certificate"},
      {answer({{"token", "t"}, {"clientKeyData", "k"}}), "gave only one of certificate and key"},
      {answer({{"token", "t"}, {"expirationTimestamp", "tomorrow"}}),
       "gave the malformed expirationTimestamp 'tomorrow'"},
  };
  for (const auto& [output, message] : cases) {
    const auto credential = decode_exec_credential(shell(""), output);
    ASSERT_FALSE(credential.has_value()) << output;
    EXPECT_EQ(credential.error().message, prefix + message);
    EXPECT_EQ(credential.error().code, ErrorCode::kPermissionDenied);
  }
}

TEST(ExecPluginTest, ThePluginIsToldWhatIsAskedAndGivesItsCredential) {
  // The token it gives is what it was told, without the quotes.
  ExecPlugin plugin = shell(
      R"sh(told=$(printf %s "$KUBERNETES_EXEC_INFO$EXTRA" | tr -d '"')
printf '{"apiVersion":"client.authentication.k8s.io/v1","kind":"ExecCredential","status":{"token":"%s"}}' "$told")sh");
  plugin.env = {{"EXTRA", "!"}};
  plugin.wants_cluster = true;
  plugin.cluster_json = R"({"server":"https://h"})";
  const auto credential = run_exec_plugin(plugin, seconds(60));
  ASSERT_TRUE(credential.has_value()) << credential.error().message;
  EXPECT_EQ(credential->token,
            "{apiVersion:client.authentication.k8s.io/v1,kind:ExecCredential,"
            "spec:{cluster:{server:https://h},interactive:false}}!");
}

TEST(ExecPluginTest, AFailureSaysWhatThePluginSaid) {
  const auto failed = run_exec_plugin(shell("echo no session >&2; exit 254"), seconds(60));
  ASSERT_FALSE(failed.has_value());
  EXPECT_EQ(failed.error().message, "config: users[u].user.exec: `sh` exited with 254: no session");
  EXPECT_EQ(failed.error().hint, "install it");
  ExecPlugin absent = shell("");
  absent.command = "lockstep-no-such-plugin";
  EXPECT_THAT(run_exec_plugin(absent, seconds(60)).error().message,
              testing::HasSubstr("cannot be started: No such file"));
  const auto talkative = run_exec_plugin(
      shell("i=0; while [ $i -lt 400 ]; do echo line-$i >&2; i=$((i+1)); done; exit 1"),
      seconds(60));
  EXPECT_THAT(talkative.error().message, testing::EndsWith("line-399"));
  EXPECT_LT(talkative.error().message.size(), 1200U);
}

}  // namespace
}  // namespace lockstep::kube

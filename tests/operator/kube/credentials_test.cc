#include "operator/kube/credentials.h"

#include <atomic>
#include <map>
#include <memory>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "tests/operator/kube/certificates.h"

namespace lockstep::kube {
namespace {

using common::Error;
using common::ErrorCode;
using common::Result;
using std::chrono::seconds;

// Files that a test may change, and how often they were read.
struct Files {
  std::map<std::string, std::string> texts;
  int num_reads = 0;

  FileReader reader() {
    return [this](const std::string& path) -> Result<std::string> {
      ++num_reads;
      const auto it = texts.find(path);
      if (it == texts.end()) return Error{ErrorCode::kNotFound, path + ": absent", ""};
      return it->second;
    };
  }
};

struct Fixture {
  Certificate authority = make_certificate("authority");
  Certificate client = make_certificate("client");
  Files files{{{"ca", authority.cert_pem}, {"cert", client.cert_pem}, {"key", client.key_pem}}};
  Credentials::Clock::time_point now = Credentials::Clock::now();
  std::unique_ptr<Credentials> credentials;

  Fixture() {
    ClientConfig config;
    config.tls.ca_pem = authority.cert_pem;
    config.tls.ca_file = "ca";
    config.tls.client_cert_pem = client.cert_pem;
    config.tls.client_cert_file = "cert";
    config.tls.client_key_pem = client.key_pem;
    config.tls.client_key_file = "key";
    Endpoint base;
    base.url = parse_server_url("https://localhost:1").value();
    credentials = Credentials::make(config, std::move(base), files.reader()).value();
  }

  std::shared_ptr<const Endpoint> endpoint_after(seconds wait) {
    now += wait;
    return credentials->current(now).value().endpoint;
  }
};

TEST(CredentialsTest, CertificatesAreReadAgainEveryMinuteAndAfterARefusal) {
  Fixture f;
  const auto first = f.endpoint_after(seconds(1));
  EXPECT_EQ(f.files.num_reads, 0);
  EXPECT_EQ(f.endpoint_after(seconds(70)), first) << "nothing has changed";
  EXPECT_EQ(f.files.num_reads, 3);
  const std::string other = make_certificate("another authority").cert_pem;
  f.files.texts["ca"] = other;
  EXPECT_EQ(f.endpoint_after(seconds(50)), first);
  const auto second = f.endpoint_after(seconds(20));
  EXPECT_NE(second, first);
  EXPECT_EQ(second->tls.ca_pem, other);
  f.files.texts["ca"] = f.authority.cert_pem;
  f.credentials->invalidate();
  EXPECT_EQ(f.endpoint_after(seconds(1))->tls.ca_pem, f.authority.cert_pem);
}

TEST(CredentialsTest, WhatCannotBeReadOrUsedKeepsWhatWeHave) {
  Fixture f;
  const auto first = f.endpoint_after(seconds(1));
  f.files.texts["ca"] = " \n";
  EXPECT_EQ(f.endpoint_after(seconds(70)), first);
  f.files.texts["ca"] = "no certificate";
  EXPECT_EQ(f.endpoint_after(seconds(70)), first);
  f.files.texts.erase("ca");
  EXPECT_EQ(f.endpoint_after(seconds(70)), first);
}

TEST(CredentialsTest, ACertificateIsTakenOnceItsKeyIsThere) {
  Fixture f;
  const auto first = f.endpoint_after(seconds(1));
  const Certificate next = make_certificate("next client");
  f.files.texts["cert"] = next.cert_pem;
  EXPECT_EQ(f.endpoint_after(seconds(70)), first) << "the key is still the old one";
  f.files.texts["key"] = next.key_pem;
  EXPECT_EQ(f.endpoint_after(seconds(70))->tls.client_cert_pem, next.cert_pem);
}

TEST(CredentialsTest, InlineCertificatesAreNeverReadAgain) {
  Files files;
  ClientConfig config;
  config.token = "tok";
  config.tls.ca_pem = make_certificate("authority").cert_pem;
  Endpoint base;
  base.url = parse_server_url("https://localhost:1").value();
  const auto credentials = Credentials::make(config, std::move(base), files.reader()).value();
  const auto now = Credentials::Clock::now();
  const Identity first = credentials->current(now).value();
  credentials->invalidate();
  EXPECT_EQ(credentials->current(now + seconds(1000)).value(), first);
  EXPECT_EQ(first.token, "tok");
  EXPECT_EQ(files.num_reads, 0);
}

// A plugin that counts its runs.
struct Plugin {
  int num_runs = 0;
  Result<ExecCredential> answer = Error{ErrorCode::kPermissionDenied, "not logged in", ""};

  ExecSource source() {
    return ExecSource([this](const std::stop_token&) {
      ++num_runs;
      return answer;
    });
  }
};
constexpr ExecCredential::Time kStart{std::chrono::hours(500'000)};

TEST(ExecSourceTest, RunsThePluginAgainInTheLastTenthOfItsCredentialsLife) {
  Plugin plugin;
  plugin.answer = ExecCredential{"one", "", "", kStart + seconds(100)};
  ExecSource source = plugin.source();
  EXPECT_EQ(source.current(kStart)->token, "one");
  plugin.answer = ExecCredential{"two", "", "", std::nullopt};
  EXPECT_EQ(source.current(kStart + seconds(89))->token, "one");
  EXPECT_EQ(source.current(kStart + seconds(90))->token, "two");
  EXPECT_EQ(source.current(kStart + std::chrono::hours(9000))->token, "two") << "never expires";
  EXPECT_EQ(plugin.num_runs, 2);
}

TEST(ExecSourceTest, RunsThePluginAgainAfterARefusalButNotAtOnce) {
  Plugin plugin;
  plugin.answer = ExecCredential{"one", "", "", std::nullopt};
  ExecSource source = plugin.source();
  EXPECT_EQ(source.current(kStart)->token, "one");
  plugin.answer = ExecCredential{"two", "", "", std::nullopt};
  source.refused(kStart + seconds(9));
  EXPECT_EQ(source.current(kStart + seconds(9))->token, "one");
  source.refused(kStart + seconds(10));
  EXPECT_EQ(source.current(kStart + seconds(10))->token, "two");
  EXPECT_EQ(source.current(kStart + seconds(10))->token, "two");
  EXPECT_EQ(plugin.num_runs, 2);
}

TEST(ExecSourceTest, AFailureIsToldAgainForAWhile) {
  Plugin plugin;
  ExecSource source = plugin.source();
  for (const int at : {0, 1, 9}) {
    EXPECT_EQ(source.current(kStart + seconds(at)).error().message, "not logged in");
  }
  EXPECT_EQ(plugin.num_runs, 1);
  plugin.answer = ExecCredential{"one", "", "", std::nullopt};
  EXPECT_EQ(source.current(kStart + seconds(10))->token, "one");
}

TEST(ExecSourceTest, ManyThreadsRunThePluginOnce) {
  std::atomic<int> num_runs = 0;
  ExecSource source([&](const std::stop_token&) -> Result<ExecCredential> {
    ++num_runs;
    return ExecCredential{"one", "", "", std::nullopt};
  });
  {
    std::vector<std::jthread> threads;
    for (int i = 0; i < 8; ++i) {
      threads.emplace_back([&source] { EXPECT_EQ(source.current(kStart)->token, "one"); });
    }
  }
  EXPECT_EQ(num_runs, 1);
}

TEST(ExecSourceTest, AStopIsNoFailureOfThePlugin) {
  std::stop_source source_of_stop;
  int num_runs = 0;
  ExecSource source([&](const std::stop_token& stop) -> Result<ExecCredential> {
    ++num_runs;
    if (stop.stop_requested()) return Error{ErrorCode::kPermissionDenied, "was stopped", ""};
    return ExecCredential{"one", "", "", std::nullopt};
  });
  source_of_stop.request_stop();
  EXPECT_EQ(source.current(kStart, source_of_stop.get_token()).error().message, "was stopped");
  EXPECT_EQ(source.current(kStart)->token, "one") << "and is not told again";
  EXPECT_EQ(num_runs, 2);
}

TEST(ExecSourceTest, WhoWaitsForThePluginOfAnotherThreadIsStoppedByItself) {
  std::atomic<bool> is_running = false;
  std::atomic<bool> may_end = false;
  ExecSource source([&](const std::stop_token&) -> Result<ExecCredential> {
    is_running = true;
    is_running.notify_all();
    may_end.wait(false);
    return ExecCredential{"one", "", "", std::nullopt};
  });
  const std::jthread runs([&] { EXPECT_EQ(source.current(kStart)->token, "one"); });
  is_running.wait(false);
  std::stop_source stop;
  const std::jthread stopper([&stop] { stop.request_stop(); });
  EXPECT_EQ(source.current(kStart, stop.get_token()).error().code, ErrorCode::kUnavailable);
  may_end = true;
  may_end.notify_all();
}

TEST(CredentialsTest, APluginsCertificateBecomesPartOfTheEndpoint) {
  const Certificate client = make_certificate("plugin");
  const nlohmann::json answer = {
      {"apiVersion", "client.authentication.k8s.io/v1"},
      {"kind", "ExecCredential"},
      {"status", {{"clientCertificateData", client.cert_pem}, {"clientKeyData", client.key_pem}}}};
  ClientConfig config;
  config.exec = ExecPlugin{.where = "users[u].user.exec",
                           .command = "printenv",
                           .args = {"ANSWER"},
                           .env = {{"ANSWER", answer.dump()}},
                           .api_version = "client.authentication.k8s.io/v1"};
  Endpoint base;
  base.url = parse_server_url("https://localhost:1").value();
  Files files;
  const auto credentials = Credentials::make(config, std::move(base), files.reader()).value();
  const auto now = Credentials::Clock::now();
  const Identity first = credentials->current(now).value();
  EXPECT_EQ(first.endpoint->tls.client_cert_pem, client.cert_pem);
  EXPECT_EQ(first.token, "");
  EXPECT_EQ(credentials->current(now).value(), first) << "connections are kept";
}

}  // namespace
}  // namespace lockstep::kube

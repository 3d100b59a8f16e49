#include "operator/kube/exec_plugin.h"

#include <algorithm>
#include <cstdio>
#include <ctime>

#include <nlohmann/json.hpp>

#include "operator/kube/client_config.h"
#include "operator/kube/subprocess.h"

namespace lockstep::kube {
namespace {

using common::Error;
using common::ErrorCode;
using common::Result;
using nlohmann::json;

constexpr std::size_t kMaxQuoted = 1024;

Error failed(const ExecPlugin& plugin, const std::string& why) {
  return {ErrorCode::kPermissionDenied, plugin.where + ": `" + plugin.command + "` " + why,
          plugin.install_hint};
}

// "2026-01-31T12:00:00Z", with fractions or an offset if need be.
std::optional<ExecCredential::Time> parse_rfc3339(const std::string& text) {
  std::tm tm{};
  int end = 0;
  const int num_read =
      std::sscanf(text.c_str(), "%4d-%2d-%2dT%2d:%2d:%2d%n", &tm.tm_year, &tm.tm_mon, &tm.tm_mday,
                  &tm.tm_hour, &tm.tm_min, &tm.tm_sec, &end);
  if (num_read != 6) return std::nullopt;
  tm.tm_year -= 1900;
  tm.tm_mon -= 1;
  std::size_t at = static_cast<std::size_t>(end);
  if (at < text.size() && text[at] == '.') {
    at = std::min(text.find_first_not_of("0123456789", at + 1), text.size());
  }
  const std::string zone = text.substr(at);
  std::chrono::minutes offset{0};
  if (zone != "Z" && zone != "z") {
    int hours = 0;
    int minutes = 0;
    const bool is_offset = zone.size() == 6 && (zone[0] == '+' || zone[0] == '-') &&
                           std::sscanf(zone.c_str() + 1, "%2d:%2d", &hours, &minutes) == 2;
    if (!is_offset) return std::nullopt;
    offset = std::chrono::minutes(hours * 60 + minutes) * (zone[0] == '-' ? -1 : 1);
  }
  return std::chrono::system_clock::from_time_t(timegm(&tm)) - offset;
}

std::string text_in(const json& object, const char* name) {
  const auto it = object.find(name);
  return it != object.end() && it->is_string() ? it->get<std::string>() : "";
}

// The last of what a program said, without the white space around it.
std::string last_of(const std::string& text) {
  const std::string trimmed = trim(text);
  if (trimmed.size() <= kMaxQuoted) return trimmed;
  return "..." + trimmed.substr(trimmed.size() - kMaxQuoted);
}

}  // namespace

Result<ExecCredential> decode_exec_credential(const ExecPlugin& plugin, const std::string& output) {
  const json answer = json::parse(output, nullptr, false);
  if (!answer.is_object() || text_in(answer, "kind") != "ExecCredential") {
    return failed(plugin, "did not print an ExecCredential");
  }
  if (text_in(answer, "apiVersion") != plugin.api_version) {
    return failed(plugin, "answered with apiVersion '" + text_in(answer, "apiVersion") + "' to '" +
                              plugin.api_version + "'");
  }
  const auto status = answer.find("status");
  if (status == answer.end() || !status->is_object()) return failed(plugin, "gave no status");
  ExecCredential credential;
  credential.token = text_in(*status, "token");
  credential.client_cert_pem = text_in(*status, "clientCertificateData");
  credential.client_key_pem = text_in(*status, "clientKeyData");
  if (credential.client_cert_pem.empty() != credential.client_key_pem.empty()) {
    return failed(plugin, "gave only one of certificate and key");
  }
  if (credential.token.empty() && credential.client_cert_pem.empty()) {
    return failed(plugin, "gave neither token nor certificate");
  }
  const std::string expiry = text_in(*status, "expirationTimestamp");
  if (!expiry.empty()) {
    credential.expires_at = parse_rfc3339(expiry);
    if (!credential.expires_at) {
      return failed(plugin, "gave the malformed expirationTimestamp '" + expiry + "'");
    }
  }
  return credential;
}

Result<ExecCredential> run_exec_plugin(const ExecPlugin& plugin, std::chrono::seconds timeout,
                                       const std::stop_token& stop) {
  json spec = {{"interactive", false}};
  if (plugin.wants_cluster) spec["cluster"] = json::parse(plugin.cluster_json, nullptr, false);
  const json info = {
      {"apiVersion", plugin.api_version}, {"kind", "ExecCredential"}, {"spec", spec}};
  Subprocess program{{plugin.command}, plugin.env, timeout};
  program.argv.insert(program.argv.end(), plugin.args.begin(), plugin.args.end());
  program.env.emplace_back("KUBERNETES_EXEC_INFO", info.dump());
  const Result<SubprocessEnd> ended = run_subprocess(program, stop);
  if (!ended) return failed(plugin, ended.error().message);
  if (ended->how.empty()) return decode_exec_credential(plugin, ended->output);
  const std::string said = last_of(ended->errors);
  return failed(plugin, ended->how + (said.empty() ? "" : ": " + said));
}

}  // namespace lockstep::kube

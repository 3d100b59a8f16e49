#include "runtime/tracking/mlflow_call.h"

#include <algorithm>

#include <httplib.h>

#include "runtime/hub/retry.h"

namespace lockstep::runtime {
namespace {

using common::Error;
using common::ErrorCode;
using common::Result;
using nlohmann::json;

constexpr std::size_t kMaxAnswerBytes = std::size_t{4} << 20;
constexpr std::size_t kMaxToldBytes = 300;  // of an answer's words in a message

std::string value_of(const EnvLookup& env, const char* name) {
  return env(name).value_or("");
}

// A header's value ends at a line's end.
Result<std::string> secret_of(const EnvLookup& env, const char* name) {
  std::string value = value_of(env, name);
  const auto is_bad = [](char c) { return static_cast<unsigned char>(c) < ' ' || c == 127; };
  if (std::none_of(value.begin(), value.end(), is_bad)) return value;
  return Error{ErrorCode::kInvalidArgument,
               std::string(name) + " has characters that no header can carry",
               "give it without a line's end"};
}

Result<std::string> authorization_of(const EnvLookup& env) {
  ASSIGN_OR_RETURN(const std::string token, secret_of(env, "MLFLOW_TRACKING_TOKEN"));
  ASSIGN_OR_RETURN(const std::string user, secret_of(env, "MLFLOW_TRACKING_USERNAME"));
  ASSIGN_OR_RETURN(const std::string password, secret_of(env, "MLFLOW_TRACKING_PASSWORD"));
  if (!user.empty()) {
    return httplib::make_basic_authentication_header(user, password).second;
  }
  return token.empty() ? "" : "Bearer " + token;
}

ErrorCode code_of(int status, const std::string& error_code) {
  if (status == 401 || status == 403) return ErrorCode::kPermissionDenied;
  if (error_code == "RESOURCE_DOES_NOT_EXIST") return ErrorCode::kNotFound;
  if (error_code == "RESOURCE_ALREADY_EXISTS") return ErrorCode::kAlreadyExists;
  return is_passing({.status = status}) ? ErrorCode::kUnavailable : ErrorCode::kInvalidArgument;
}

std::string hint_of(ErrorCode code, bool is_of_mlflow) {
  if (code == ErrorCode::kPermissionDenied) {
    return "set MLFLOW_TRACKING_TOKEN, or MLFLOW_TRACKING_USERNAME and MLFLOW_TRACKING_PASSWORD";
  }
  const bool is_elsewhere = code == ErrorCode::kInvalidArgument && !is_of_mlflow;
  return is_elsewhere ? "check train.logging.mlflow.trackingUri" : "";
}

// An answer that is not the one asked for, in its own words where it has some.
Error refusal(const MlflowServer& server, int status, const std::string& body) {
  const json answer = json::parse(body, nullptr, false);
  const auto text_of = [&answer](const char* key) {
    const bool has_it = answer.is_object() && answer.contains(key) && answer[key].is_string();
    return has_it ? answer[key].get<std::string>() : std::string();
  };
  std::string message = text_of("message");
  const bool is_of_mlflow = !message.empty();
  if (!is_of_mlflow) message = "an answer that is not MLflow's";
  if (message.size() > kMaxToldBytes) message = message.substr(0, kMaxToldBytes) + "...";
  const ErrorCode code = code_of(status, text_of("error_code"));
  return Error{code,
               server.address.origin() + " answered " + std::to_string(status) + ": " + message,
               hint_of(code, is_of_mlflow)};
}

void configure(httplib::Client& client, const MlflowServer& server) {
  client.set_follow_location(false);
  client.set_url_encode(false);  // it is
  client.set_connection_timeout(server.connect_timeout);
  client.set_read_timeout(server.answer_timeout);
  client.set_write_timeout(server.answer_timeout);
  if (const std::optional<Url> proxy = proxy_for(server.proxies, server.address)) {
    client.set_proxy(proxy->host, proxy->port);
  }
}

}  // namespace

Result<MlflowServer> mlflow_server(const std::string& tracking_uri, const EnvLookup& env) {
  std::string uri = tracking_uri;
  while (uri.ends_with('/')) uri.pop_back();
  Result<Url> address = parse_url(uri);
  if (!address || address->target.find('?') != std::string::npos) {
    return Error{ErrorCode::kInvalidArgument,
                 "train.logging.mlflow.trackingUri: '" + tracking_uri + "' is no address",
                 "write it as http://HOST[:PORT] or https://HOST[:PORT]"};
  }
  if (address->target == "/") address->target.clear();
  MlflowServer server{.address = *std::move(address)};
  ASSIGN_OR_RETURN(server.authorization, authorization_of(env));
  ASSIGN_OR_RETURN(server.proxies, read_proxies(env));
  return server;
}

Result<json> call_mlflow(const MlflowServer& server, const MlflowRequest& request,
                         const std::stop_token& stop) {
  httplib::Client client(server.address.origin());
  configure(client, server);
  std::string body;
  httplib::Request asked;
  asked.method = request.body ? "POST" : "GET";
  asked.path = server.address.target + "/api/2.0/mlflow/" + request.path;
  asked.headers = {{"Accept", "application/json"}, {"User-Agent", "lockstep"}};
  if (!server.authorization.empty()) asked.headers.emplace("Authorization", server.authorization);
  if (request.body) {
    asked.headers.emplace("Content-Type", "application/json");
    asked.body = request.body->dump(-1, ' ', false, json::error_handler_t::replace);
  }
  asked.content_receiver = [&body](const char* data, std::size_t size, uint64_t /*begin*/,
                                   uint64_t /*total*/) {
    if (body.size() + size > kMaxAnswerBytes) return false;
    body.append(data, size);
    return true;
  };
  const std::stop_callback cancel(stop, [&client] { client.stop(); });
  const httplib::Result answer = client.send(asked);
  if (!answer) {
    const bool is_too_long = answer.error() == httplib::Error::Canceled && !stop.stop_requested();
    return Error{is_too_long ? ErrorCode::kInvalidArgument : ErrorCode::kUnavailable,
                 server.address.origin() + ": " +
                     (is_too_long ? "too long an answer" : httplib::to_string(answer.error())),
                 ""};
  }
  if (answer->status != 200) return refusal(server, answer->status, body);
  json object = json::parse(body, nullptr, false);
  if (!object.is_object()) return refusal(server, answer->status, "");
  return object;
}

}  // namespace lockstep::runtime

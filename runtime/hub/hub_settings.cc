#include "runtime/hub/hub_settings.h"

#include <algorithm>
#include <array>
#include <string_view>

#include "runtime/common/text_file.h"

namespace lockstep::runtime {
namespace {

using common::Error;
using common::ErrorCode;
using common::Result;

std::string first_set(const EnvLookup& env, std::initializer_list<const char*> names) {
  for (const char* const name : names) {
    const std::optional<std::string> value = env(name);
    if (value && !value->empty()) return *value;
  }
  return "";
}

bool says_yes(std::string value) {
  std::transform(value.begin(), value.end(), value.begin(), [](char c) {
    return c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c;
  });
  return value == "1" || value == "ON" || value == "YES" || value == "TRUE";
}

std::string at_home(const EnvLookup& env, const std::string& path) {
  return path.starts_with("~/") ? first_set(env, {"HOME"}) + path.substr(1) : path;
}

// Where huggingface_hub keeps what is its own; empty without a home.
std::string hugging_face_home(const EnvLookup& env) {
  const std::string named = first_set(env, {"HF_HOME"});
  if (!named.empty()) return at_home(env, named);
  const std::string caches = first_set(env, {"XDG_CACHE_HOME"});
  if (!caches.empty()) return at_home(env, caches) + "/huggingface";
  const std::string home = first_set(env, {"HOME"});
  return home.empty() || home == "/" ? "" : home + "/.cache/huggingface";
}

std::string trimmed(const std::string& text) {
  constexpr std::string_view kBlank = " \t\r\n";
  const std::size_t begin = text.find_first_not_of(kBlank);
  if (begin == std::string::npos) return "";
  return text.substr(begin, text.find_last_not_of(kBlank) - begin + 1);
}

Result<std::string> read_token(const EnvLookup& env, const std::string& home) {
  std::string token = trimmed(first_set(env, {"HF_TOKEN", "HUGGING_FACE_HUB_TOKEN"}));
  const std::string named = first_set(env, {"HF_TOKEN_PATH"});
  if (token.empty() && !(named.empty() && home.empty())) {
    const std::string path = named.empty() ? home + "/token" : at_home(env, named);
    const Result<std::string> text = common::read_text_file(path);
    if (text) token = trimmed(*text);
    if (!text && !named.empty()) {
      return Error{ErrorCode::kInvalidArgument, "HF_TOKEN_PATH: " + text.error().message,
                   text.error().hint};
    }
  }
  const auto is_bad = [](char c) { return c <= ' ' || c == 127; };
  if (!std::any_of(token.begin(), token.end(), is_bad)) return token;
  return Error{ErrorCode::kInvalidArgument, "HF_TOKEN has characters that no header can carry",
               "give the token alone, e.g. hf_..."};
}

Result<std::string> check_proxy(const char* name, const std::string& proxy) {
  if (proxy.empty()) return proxy;
  const std::string whole = proxy.find("://") == std::string::npos ? "http://" + proxy : proxy;
  const Result<Url> url = parse_url(whole);
  if (url && url->scheme == "http") return whole;
  return Error{ErrorCode::kInvalidArgument,
               std::string(name) + " is no plain HTTP proxy without a password",
               "write it as http://HOST:PORT; others are not supported"};
}

// Whether an entry of $NO_PROXY covers `host`.
bool covers(std::string_view entry, std::string_view host) {
  if (entry == "*") return true;
  if (entry.starts_with('.')) entry.remove_prefix(1);
  if (entry.empty() || !host.ends_with(entry)) return false;
  return host.size() == entry.size() || host[host.size() - entry.size() - 1] == '.';
}

bool is_excepted(std::string_view list, const std::string& host) {
  while (!list.empty()) {
    const std::size_t comma = std::min(list.find(','), list.size());
    if (covers(trimmed(std::string(list.substr(0, comma))), host)) return true;
    list.remove_prefix(std::min(comma + 1, list.size()));
  }
  return false;
}

}  // namespace

Result<HubSettings> read_hub_settings(const EnvLookup& env) {
  HubSettings settings;
  const std::string endpoint = first_set(env, {"HF_ENDPOINT"});
  if (!endpoint.empty()) settings.endpoint = endpoint;
  while (settings.endpoint.ends_with('/')) settings.endpoint.pop_back();
  if (const Result<Url> url = parse_url(settings.endpoint); !url) {
    return Error{ErrorCode::kInvalidArgument, "HF_ENDPOINT: " + url.error().message,
                 url.error().hint};
  }
  const std::string home = hugging_face_home(env);
  const std::string cache = first_set(env, {"HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE"});
  settings.cache = !cache.empty() ? at_home(env, cache) : home.empty() ? "" : home + "/hub";
  if (settings.cache.empty()) {
    return Error{ErrorCode::kInvalidArgument, "there is no place for what is fetched from the hub",
                 "set HF_HOME to a folder that can be written, e.g. of a mounted volume"};
  }
  settings.is_offline = says_yes(first_set(env, {"HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE"}));
  ASSIGN_OR_RETURN(settings.token, read_token(env, home));
  ASSIGN_OR_RETURN(settings.proxies, read_proxies(env));
  return settings;
}

Result<ProxySettings> read_proxies(const EnvLookup& env) {
  ProxySettings proxies;
  ASSIGN_OR_RETURN(proxies.http,
                   check_proxy("HTTP_PROXY", first_set(env, {"http_proxy", "HTTP_PROXY"})));
  ASSIGN_OR_RETURN(proxies.https,
                   check_proxy("HTTPS_PROXY", first_set(env, {"https_proxy", "HTTPS_PROXY"})));
  proxies.no_proxy = first_set(env, {"no_proxy", "NO_PROXY"});
  return proxies;
}

std::optional<Url> proxy_for(const ProxySettings& proxies, const Url& url) {
  const std::string& named = url.scheme == "https" ? proxies.https : proxies.http;
  const bool is_here =
      url.host == "localhost" || url.host.starts_with("127.") || url.host == "[::1]";
  if (named.empty() || is_here || is_excepted(proxies.no_proxy, url.host)) return std::nullopt;
  const Result<Url> proxy = parse_url(named);
  return proxy ? std::optional(*proxy) : std::nullopt;
}

}  // namespace lockstep::runtime

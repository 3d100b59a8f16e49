// How to reach the Hugging Face hub, and where its cache is: huggingface_hub's own variables.
// Source: https://huggingface.co/docs/huggingface_hub/package_reference/environment_variables
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "runtime/common/result.h"
#include "runtime/hub/url.h"

namespace lockstep::runtime {

// Proxies of the environment.
struct ProxySettings {
  std::string http;      // $HTTP_PROXY
  std::string https;     // $HTTPS_PROXY
  std::string no_proxy;  // $NO_PROXY: "host,.domain,*"
};

struct HubSettings {
  std::string endpoint = "https://huggingface.co";  // $HF_ENDPOINT; no slash at its end
  std::string token;                                // $HF_TOKEN, or of a file; empty: none
  bool is_offline = false;                          // $HF_HUB_OFFLINE
  std::string cache;                                // $HF_HUB_CACHE, $HF_HOME/hub, ...
  ProxySettings proxies;
};

using EnvLookup = std::function<std::optional<std::string>(const std::string&)>;

// Reads them, and the file of a token: $HF_TOKEN_PATH, else "token" in $HF_HOME.
// kInvalidArgument names the variable: an endpoint that is no address, a token that no header can
// carry (it is not shown), no place for a cache, a proxy that is no plain HTTP proxy.
common::Result<HubSettings> read_hub_settings(const EnvLookup& env);

// $HTTP_PROXY, $HTTPS_PROXY and $NO_PROXY, in small letters or large ones. kInvalidArgument names
// the variable that is no plain HTTP proxy.
common::Result<ProxySettings> read_proxies(const EnvLookup& env);

// The proxy on the way to `url`; nothing if there is none. Never one for loopback.
std::optional<Url> proxy_for(const ProxySettings& proxies, const Url& url);

}  // namespace lockstep::runtime

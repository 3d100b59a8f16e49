// Requests to the hub: redirects, who gets the token, tries, and what an answer means.
#pragma once

#include <chrono>
#include <functional>
#include <stop_token>
#include <string>

#include "runtime/common/hub_reference.h"
#include "runtime/common/result.h"
#include "runtime/hub/http_get.h"
#include "runtime/hub/hub_settings.h"

namespace lockstep::runtime {

// Waits between tries; returns early once `stop` is requested.
using Pause = std::function<void(std::chrono::seconds, const std::stop_token& stop)>;
Pause real_pause();

struct HubSession {
  HubSettings settings;
  std::stop_token stop;
  Pause pause = real_pause();
};

// What a request is for: words of errors.
struct HubSubject {
  common::HubReference reference;
  std::string file;  // empty: the repository itself
};

// A try of a GET of `path` below the endpoint, with up to 5 redirects. The token goes to the
// endpoint's own server only: a redirect leads to another, which has its own signature.
HttpReply try_hub(const HubSession& session, const std::string& path, int64_t from_byte = 0,
                  const BodySink* sink = nullptr);

// Tries until there is an answer (status 200 or 206), or none is to be had. Errors: those of
// error_of(); kUnavailable if told to stop.
common::Result<HttpReply> get_from_hub(const HubSession& session, const HubSubject& subject,
                                       const std::string& path);

// What a try that did not bring what it was to means, for people:
//   kNotFound          no such repository, revision or file
//   kPermissionDenied  gated, private, or a token that is not accepted
//   kUnavailable       no connection, one that was cut, or a server in trouble
common::Error error_of(const HubSession& session, const HubSubject& subject,
                       const HttpReply& reply);

// How long the server asks to be left alone; nothing if it does not say.
std::optional<std::chrono::seconds> retry_after_of(const HttpReply& reply);

}  // namespace lockstep::runtime

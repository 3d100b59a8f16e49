#include "runtime/hub/hub_session.h"

#include <charconv>
#include <condition_variable>
#include <mutex>
#include <utility>

#include "runtime/hub/retry.h"

namespace lockstep::runtime {
namespace {

using common::Error;
using common::ErrorCode;
using common::Result;

constexpr int kMaxRedirects = 5;

// What the server says, fit to be shown.
std::string words_of(const HttpReply& reply) {
  constexpr std::size_t kMost = 200;
  std::string words = reply.header("x-error-message").substr(0, kMost);
  for (char& c : words) {
    if (static_cast<unsigned char>(c) < ' ') c = ' ';
  }
  return words.empty() ? "" : " (" + words + ")";
}

std::string page_of(const HubSession& session, const common::HubReference& reference) {
  const std::string folder = reference.kind == common::HubKind::kDataset ? "/datasets/" : "/";
  return session.settings.endpoint + folder + reference.repo;
}

Error gated(const HubSession& session, const HubSubject& subject) {
  const std::string page = page_of(session, subject.reference);
  return {ErrorCode::kPermissionDenied,
          repository_name(subject.reference) + " is gated: its authors ask for consent first",
          session.settings.token.empty()
              ? "accept the licence on " + page + ", then set HF_TOKEN to a token of that account"
              : "accept the licence on " + page +
                    " with the account of HF_TOKEN, and wait until "
                    "access is granted"};
}

Error no_repository(const HubSession& session, const HubSubject& subject) {
  return {ErrorCode::kNotFound,
          repository_name(subject.reference) + " is not on " + session.settings.endpoint +
              ", or is private",
          session.settings.token.empty()
              ? "check the name; a private one needs HF_TOKEN"
              : "check the name, and that the account of HF_TOKEN may read it"};
}

Error not_found(const HubSession& session, const HubSubject& subject, const HttpReply& reply) {
  const std::string code = reply.header("x-error-code");
  const std::string name = repository_name(subject.reference);
  if (code == "RevisionNotFound") {
    return {ErrorCode::kNotFound,
            "there is no revision " + subject.reference.revision + " of " + name,
            "name a branch, a tag or a commit of it"};
  }
  if (code == "EntryNotFound" || !subject.file.empty()) {
    return {ErrorCode::kNotFound, "there is no " + subject.file + " in " + name, ""};
  }
  return no_repository(session, subject);
}

}  // namespace

Pause real_pause() {
  return [](std::chrono::seconds duration, const std::stop_token& stop) {
    std::mutex mutex;
    std::condition_variable_any condition;
    std::unique_lock lock(mutex);
    condition.wait_for(lock, stop, duration, [] { return false; });
  };
}

std::optional<std::chrono::seconds> retry_after_of(const HttpReply& reply) {
  const std::string text = reply.header("retry-after");
  int64_t seconds = 0;
  const auto read = std::from_chars(text.data(), text.data() + text.size(), seconds);
  if (read.ec != std::errc() || read.ptr != text.data() + text.size() || seconds < 0) {
    return std::nullopt;
  }
  return std::chrono::seconds(seconds);
}

Error error_of(const HubSession& session, const HubSubject& subject, const HttpReply& reply) {
  const std::string what = subject.file.empty()
                               ? repository_name(subject.reference)
                               : subject.file + " of " + repository_name(subject.reference);
  const std::string code = reply.header("x-error-code");
  if (!reply.broken.empty()) {
    return {ErrorCode::kUnavailable, "cannot fetch " + what + ": " + reply.broken,
            reply.may_pass ? "is there a way to " + session.settings.endpoint +
                                 "? with HF_HUB_OFFLINE=1 the cache alone is used"
                           : "SSL_CERT_FILE names the authorities that are trusted"};
  }
  if (code == "GatedRepo") return gated(session, subject);
  const bool is_bad_token =
      reply.header("x-error-message") == "Invalid credentials in Authorization header";
  if (reply.status == 401 && !is_bad_token) return no_repository(session, subject);
  if (reply.status == 401 || reply.status == 403) {
    return {ErrorCode::kPermissionDenied,
            "the hub refuses " + what + ": HTTP " + std::to_string(reply.status) + words_of(reply),
            "check HF_TOKEN, and what its account may read"};
  }
  if (reply.status == 404) return not_found(session, subject, reply);
  return {ErrorCode::kUnavailable,
          "cannot fetch " + what + ": " + session.settings.endpoint + " answers HTTP " +
              std::to_string(reply.status) + words_of(reply),
          "the hub may be in trouble: try again later"};
}

HttpReply try_hub(const HubSession& session, const std::string& path, int64_t from_byte,
                  const BodySink* sink) {
  const Result<Url> endpoint = parse_url(session.settings.endpoint);
  Result<Url> url = parse_url(session.settings.endpoint + path);
  HttpReply reply;
  for (int redirects = 0; redirects <= kMaxRedirects; ++redirects) {
    if (!endpoint || !url) {
      reply.status = 0;
      reply.broken = (endpoint ? url : endpoint).error().message;
      reply.may_pass = false;
      return reply;
    }
    const bool is_own = url->origin() == endpoint->origin();
    reply = http_get({.url = *url,
                      .token = is_own ? session.settings.token : "",
                      .from_byte = from_byte,
                      .sink = sink},
                     session.settings.proxies, session.stop);
    const bool leads_on = reply.broken.empty() && reply.status >= 301 && reply.status <= 308 &&
                          reply.status != 304 && !reply.header("location").empty();
    if (!leads_on) return reply;
    url = follow(*url, reply.header("location"));
  }
  reply.broken = "redirects without an end";
  return reply;
}

Result<HttpReply> get_from_hub(const HubSession& session, const HubSubject& subject,
                               const std::string& path) {
  for (int tries = 1;; ++tries) {
    HttpReply reply = try_hub(session, path);
    if (reply.broken.empty() && reply.status == 200) return reply;
    const auto pause = pause_before_next(tries, {.status = reply.broken.empty() ? reply.status : 0,
                                                 .may_pass = reply.may_pass,
                                                 .retry_after = retry_after_of(reply)});
    if (!pause || session.stop.stop_requested()) return error_of(session, subject, reply);
    session.pause(*pause, session.stop);
  }
}

}  // namespace lockstep::runtime

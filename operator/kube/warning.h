// What an API server warns of in "Warning" headers while it does as asked: a Pod Security level of
// the namespace that only warns, a deprecated version, a word of an admission webhook. Pure.
// Source: RFC 7234 section 5.5; kubernetes/apimachinery pkg/util/net/http.go, kubernetes/apiserver
// pkg/endpoints/filters/warning.go (the server sends at most 4 KiB of them in an answer).
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "operator/kube/client.h"

namespace lockstep::kube {

// One warning-value of a header.
struct Warning {
  int code = 0;       // three digits
  std::string agent;  // who warns; "-" if it does not say
  std::string text;   // without quotes and escapes
  bool operator==(const Warning&) const = default;
};

// The warnings in `header`, the value of one Warning header, in order. What follows something that
// is malformed is not looked at: where it ends is not known.
std::vector<Warning> parse_warnings(std::string_view header);

// `text` as it can stand in an event or a status: at most `max_bytes` (3 or more), the last of
// which are "..." if it was cut, valid UTF-8 before anything else, without control characters.
std::string presentable(std::string text, std::size_t max_bytes);

// So many texts are told, of an answer as of all that are put together.
inline constexpr std::size_t kMaxWarnings = 16;

// What a person should read of all Warning headers of an answer, in order and each text once: those
// of code 299, the only one that API servers send. Valid UTF-8 without control characters; a text
// of more than 1 KiB is cut and ends in "...", and after kMaxWarnings texts one line says how many
// more there were.
Warnings warning_texts(std::span<const std::string> headers);

}  // namespace lockstep::kube

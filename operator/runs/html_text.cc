#include "operator/runs/html_text.h"

#include <array>
#include <cmath>
#include <cstddef>
#include <cstdio>

namespace lockstep::runs {
namespace {

constexpr std::string_view kReplacement = "&#xFFFD;";

bool continues(std::string_view text, std::size_t at) {
  return at < text.size() && (static_cast<unsigned char>(text[at]) & 0xC0U) == 0x80U;
}

// Bytes of the UTF-8 character at `at`; 0 if there is none. Source: RFC 3629, table 3-7 of Unicode.
std::size_t character_length(std::string_view text, std::size_t at) {
  const auto byte = [&text](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char first = byte(at);
  if (first < 0x80) return 1;
  const std::size_t length = first >= 0xF0 ? 4 : first >= 0xE0 ? 3 : 2;
  if (first < 0xC2 || first > 0xF4) return 0;
  for (std::size_t i = 1; i < length; ++i) {
    if (!continues(text, at + i)) return 0;
  }
  const unsigned char second = byte(at + 1);
  const bool is_overlong = (first == 0xE0 && second < 0xA0) || (first == 0xF0 && second < 0x90);
  const bool is_beyond = (first == 0xED && second > 0x9F) || (first == 0xF4 && second > 0x8F);
  return is_overlong || is_beyond ? 0 : length;
}

std::string formatted(const char* format, int digits, double value) {
  std::array<char, 64> buffer{};
  std::snprintf(buffer.data(), buffer.size(), format, digits, value);
  return buffer.data();
}

}  // namespace

std::string html_text(std::string_view text) {
  std::string escaped;
  escaped.reserve(text.size());
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t length = character_length(text, at);
    const char c = text[at];
    if (c == '&') {
      escaped += "&amp;";
    } else if (c == '<') {
      escaped += "&lt;";
    } else if (c == '>') {
      escaped += "&gt;";
    } else if (c == '"') {
      escaped += "&quot;";
    } else if (c == '\'') {
      escaped += "&#39;";
    } else if (length == 0 || c == '\x7f' || (c >= '\0' && c < ' ' && c != '\n' && c != '\t')) {
      escaped += kReplacement;
    } else {
      escaped.append(text.substr(at, length));
    }
    at += length == 0 ? 1 : length;
  }
  return escaped;
}

std::string short_number(double value, int digits) {
  if (!std::isfinite(value)) return "-";
  const double size = std::abs(value);
  if (size < 1000 || size >= 1e15) return formatted("%.*g", digits, value);
  const std::string text = formatted("%.*f", 0, value);
  const std::size_t sign = value < 0 ? 1 : 0;
  std::string grouped = text.substr(0, sign);
  for (std::size_t at = sign; at < text.size(); ++at) {
    if (at > sign && (text.size() - at) % 3 == 0) grouped += ',';
    grouped += text[at];
  }
  return grouped;
}

std::string short_bytes(double bytes) {
  constexpr std::array<const char*, 5> kUnits = {" B", " KiB", " MiB", " GiB", " TiB"};
  std::size_t unit = 0;
  while (bytes >= 1024 && unit + 1 < kUnits.size()) {
    bytes /= 1024;
    ++unit;
  }
  return short_number(bytes, 3) + kUnits[unit];
}

}  // namespace lockstep::runs

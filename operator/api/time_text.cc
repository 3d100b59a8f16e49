// Times and durations as text.
#include <array>
#include <cctype>
#include <cstdio>
#include <cstdlib>

#include "operator/api/codec.h"

namespace lockstep::api {
namespace {

// The number in text[at, at + count), or nothing if it is not all digits.
std::optional<int> digits(std::string_view text, size_t at, size_t count) {
  if (at + count > text.size()) return std::nullopt;
  int value = 0;
  for (const char c : text.substr(at, count)) {
    if (std::isdigit(static_cast<unsigned char>(c)) == 0) return std::nullopt;
    value = value * 10 + (c - '0');
  }
  return value;
}

// The offset that a time ends with: "Z", "+01:00" or "-05:30".
std::optional<std::chrono::minutes> offset_of(std::string_view zone) {
  if (zone == "Z" || zone == "z") return std::chrono::minutes(0);
  const std::optional<int> hours = digits(zone, 1, 2);
  const std::optional<int> minutes = digits(zone, 4, 2);
  if (zone.size() != 6 || zone[3] != ':' || !hours || !minutes) return std::nullopt;
  if (zone[0] != '+' && zone[0] != '-') return std::nullopt;
  const std::chrono::minutes offset(*hours * 60 + *minutes);
  return zone[0] == '-' ? -offset : offset;
}

}  // namespace

std::string format_time(Time time) {
  const auto day = std::chrono::floor<std::chrono::days>(time);
  const std::chrono::year_month_day date(day);
  const std::chrono::hh_mm_ss clock(time - day);
  std::array<char, 40> text{};
  std::snprintf(text.data(), text.size(), "%04d-%02u-%02uT%02d:%02d:%02dZ",
                static_cast<int>(date.year()), static_cast<unsigned>(date.month()),
                static_cast<unsigned>(date.day()), static_cast<int>(clock.hours().count()),
                static_cast<int>(clock.minutes().count()),
                static_cast<int>(clock.seconds().count()));
  return text.data();
}

std::optional<Time> parse_time(std::string_view text) {
  constexpr size_t kDateAndTime = 19;  // 2026-01-31T12:00:00
  if (text.size() <= kDateAndTime || text[4] != '-' || text[7] != '-' || text[13] != ':' ||
      text[16] != ':' || (text[10] != 'T' && text[10] != 't')) {
    return std::nullopt;
  }
  const auto year = digits(text, 0, 4), month = digits(text, 5, 2), day = digits(text, 8, 2);
  const auto hour = digits(text, 11, 2), minute = digits(text, 14, 2), second = digits(text, 17, 2);
  if (!year || !month || !day || !hour || !minute || !second) return std::nullopt;
  const std::chrono::year_month_day date(std::chrono::year(*year),
                                         std::chrono::month(static_cast<unsigned>(*month)),
                                         std::chrono::day(static_cast<unsigned>(*day)));
  constexpr int kLeapSecond = 60;
  if (!date.ok() || *hour > 23 || *minute > 59 || *second > kLeapSecond) return std::nullopt;

  size_t zone = kDateAndTime;
  if (text[zone] == '.') {
    ++zone;
    while (zone < text.size() && std::isdigit(static_cast<unsigned char>(text[zone])) != 0) ++zone;
    if (zone == kDateAndTime + 1) return std::nullopt;
  }
  const std::optional<std::chrono::minutes> offset = offset_of(text.substr(zone));
  if (!offset) return std::nullopt;
  return std::chrono::sys_days(date) + std::chrono::hours(*hour) + std::chrono::minutes(*minute) +
         std::chrono::seconds(*second) - *offset;
}

std::string format_loss(const std::string& decimal) {
  if (decimal.empty()) return decimal;
  char text[32];
  std::snprintf(text, sizeof text, "%.4f", std::strtod(decimal.c_str(), nullptr));
  return text;
}

std::string format_duration(std::chrono::seconds duration) {
  const int64_t total = std::max<int64_t>(0, duration.count());
  const int64_t days = total / 86400, hours = total / 3600 % 24, minutes = total / 60 % 60;
  const auto pair = [](int64_t big, const char* big_unit, int64_t small, const char* small_unit) {
    std::string text = std::to_string(big).append(big_unit);
    if (small > 0) text.append(std::to_string(small)).append(small_unit);
    return text;
  };
  if (days > 0) return pair(days, "d", hours, "h");
  if (hours > 0) return pair(hours, "h", minutes, "m");
  if (minutes > 0) return pair(minutes, "m", total % 60, "s");
  return std::to_string(total).append("s");
}

}  // namespace lockstep::api

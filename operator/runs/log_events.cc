#include "operator/runs/log_events.h"

namespace lockstep::runs {
namespace {

constexpr std::size_t kTimeLength = 24;  // 2026-11-21T13:20:04.811Z

bool looks_like_time(std::string_view word) {
  return word.size() == kTimeLength && word[4] == '-' && word[10] == 'T' && word.back() == 'Z';
}

// Takes the text up to the next space off `rest`.
std::string_view take_word(std::string_view& rest) {
  const std::size_t end = rest.find(' ');
  const std::string_view word = rest.substr(0, end);
  rest = end == std::string_view::npos ? std::string_view() : rest.substr(end + 1);
  return word;
}

// Takes a quoted value, of which the opening quote is gone, with the space behind it. Backslashes
// stand for what log.cc writes so.
std::string take_quoted(std::string_view& rest) {
  std::string value;
  std::size_t at = 0;
  for (; at < rest.size() && rest[at] != '"'; ++at) {
    if (rest[at] != '\\' || at + 1 == rest.size()) {
      value += rest[at];
      continue;
    }
    const char escaped = rest[++at];
    value += escaped == 'n' ? '\n' : escaped;
  }
  rest.remove_prefix(at < rest.size() ? at + 1 : at);
  if (rest.starts_with(' ')) rest.remove_prefix(1);
  return value;
}

}  // namespace

std::optional<LogEvent> parse_log_line(std::string_view line) {
  const std::string_view time = take_word(line);
  if (!looks_like_time(time)) return std::nullopt;
  LogEvent event{.time = std::string(time), .level = std::string(take_word(line))};
  while (!line.empty()) {
    const std::size_t end = line.find_first_of(" =");
    if (end == std::string_view::npos || line[end] == ' ') {
      if (!event.name.empty()) event.name += ' ';
      event.name += take_word(line);
      continue;
    }
    std::string key(line.substr(0, end));
    line.remove_prefix(end + 1);
    if (line.starts_with('"')) {
      line.remove_prefix(1);
      event.fields[std::move(key)] = take_quoted(line);
    } else {
      event.fields[std::move(key)] = take_word(line);
    }
  }
  if (event.name.empty()) return std::nullopt;
  return event;
}

}  // namespace lockstep::runs

// The lines of a rank's log (runtime/common/log.h), read back.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>

namespace lockstep::runs {

struct LogEvent {
  std::string time;   // "2026-11-21T13:20:04.811Z"
  std::string level;  // info, warning, error
  std::string name;   // may be of several words: "stopped early"
  std::map<std::string, std::string> fields;
};

// "TIME LEVEL event words key=value key=\"quoted value\"". Nothing for a line of another form (what
// a library wrote, or a user's own program).
std::optional<LogEvent> parse_log_line(std::string_view line);

}  // namespace lockstep::runs

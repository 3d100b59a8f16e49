// One line per event: time, level, event name and key=value fields, to stderr.
#pragma once

#include <concepts>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace spdlog {
class logger;  // NOLINT(readability-identifier-naming)
}

namespace lockstep::common {

// One key=value of a log line. Values with spaces, quotes, '=' or control characters are quoted.
struct LogField {
  LogField(std::string_view field_key, std::string_view field_value)
      : key(field_key), value(field_value) {}
  LogField(std::string_view field_key, const char* field_value)
      : key(field_key), value(field_value) {}
  LogField(std::string_view field_key, double field_value);
  LogField(std::string_view field_key, std::integral auto field_value)
      : key(field_key), value(std::to_string(field_value)) {}

  std::string key;
  std::string value;
};

// "event key=value key="quoted value"", as a log line carries it.
std::string format_event(std::string_view event, const std::vector<LogField>& fields);

// Writes log lines. Copies share the sink; every line is written whole. Safe from any thread.
class Log {
 public:
  // `fields` open every line, e.g. {{"job", name}, {"rank", 0}}.
  explicit Log(std::vector<LogField> fields = {});

  // The same log whose lines carry `fields` too.
  Log with(std::initializer_list<LogField> fields) const;

  void info(std::string_view event, std::initializer_list<LogField> fields = {}) const;
  void warning(std::string_view event, std::initializer_list<LogField> fields = {}) const;
  void error(std::string_view event, std::initializer_list<LogField> fields = {}) const;

 private:
  std::string line(std::string_view event, std::initializer_list<LogField> fields) const;

  std::shared_ptr<spdlog::logger> logger_;
  std::vector<LogField> fields_;
};

}  // namespace lockstep::common

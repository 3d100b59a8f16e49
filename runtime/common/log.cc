#include "runtime/common/log.h"

#include <array>
#include <cstdio>

#include <spdlog/common.h>
#include <spdlog/logger.h>
#include <spdlog/sinks/ansicolor_sink.h>

namespace lockstep::common {
namespace {

bool needs_quotes(std::string_view value) {
  if (value.empty()) return true;
  for (const char c : value) {
    if (static_cast<unsigned char>(c) <= ' ' || c == '"' || c == '=' || c == '\\') return true;
  }
  return false;
}

// One field stays on one line whatever it holds.
void append_quoted(std::string_view value, std::string& line) {
  line += '"';
  for (const char c : value) {
    if (c == '\n') {
      line += "\\n";
    } else if (c == '"' || c == '\\') {
      line += '\\';
      line += c;
    } else {
      line += static_cast<unsigned char>(c) < ' ' ? ' ' : c;
    }
  }
  line += '"';
}

void append_field(const LogField& field, std::string& line) {
  line += ' ';
  line += field.key;
  line += '=';
  if (needs_quotes(field.value)) {
    append_quoted(field.value, line);
  } else {
    line += field.value;
  }
}

std::string format_double(double value) {
  std::array<char, 32> text{};
  const int size = std::snprintf(text.data(), text.size(), "%.6g", value);
  return std::string(text.data(), static_cast<std::size_t>(size));
}

}  // namespace

LogField::LogField(std::string_view field_key, double field_value)
    : key(field_key), value(format_double(field_value)) {}

std::string format_event(std::string_view event, const std::vector<LogField>& fields) {
  std::string line(event);
  for (const LogField& field : fields) append_field(field, line);
  return line;
}

Log::Log(std::vector<LogField> fields) : fields_(std::move(fields)) {
  auto sink =
      std::make_shared<spdlog::sinks::ansicolor_stderr_sink_mt>(spdlog::color_mode::automatic);
  logger_ = std::make_shared<spdlog::logger>("lockstep", std::move(sink));
  logger_->set_pattern("%Y-%m-%dT%H:%M:%S.%eZ %^%l%$ %v", spdlog::pattern_time_type::utc);
  logger_->flush_on(spdlog::level::info);
}

Log Log::with(std::initializer_list<LogField> fields) const {
  Log log = *this;
  log.fields_.insert(log.fields_.end(), fields);
  return log;
}

std::string Log::line(std::string_view event, std::initializer_list<LogField> fields) const {
  std::string line(event);
  for (const LogField& field : fields_) append_field(field, line);
  for (const LogField& field : fields) append_field(field, line);
  return line;
}

void Log::info(std::string_view event, std::initializer_list<LogField> fields) const {
  logger_->log(spdlog::level::info, spdlog::string_view_t(line(event, fields)));
}

void Log::warning(std::string_view event, std::initializer_list<LogField> fields) const {
  logger_->log(spdlog::level::warn, spdlog::string_view_t(line(event, fields)));
}

void Log::error(std::string_view event, std::initializer_list<LogField> fields) const {
  logger_->log(spdlog::level::err, spdlog::string_view_t(line(event, fields)));
}

}  // namespace lockstep::common

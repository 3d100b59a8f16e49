#include "operator/kube/warning.h"

#include <algorithm>
#include <cctype>
#include <optional>
#include <utility>

namespace lockstep::kube {

using nlohmann::json;

namespace {

// Reads a header's value from its front.
class Reader {
 public:
  explicit Reader(std::string_view text) : rest_(text) {}

  bool at_end() const { return rest_.empty(); }

  // True if anything was skipped.
  bool skip(std::string_view any_of) {
    const std::size_t begin = std::min(rest_.find_first_not_of(any_of), rest_.size());
    rest_.remove_prefix(begin);
    return begin > 0;
  }

  // Up to the next blank, comma or quote; empty if there is nothing.
  std::string_view word() {
    const std::string_view word = rest_.substr(0, rest_.find_first_of(" \t,\""));
    rest_.remove_prefix(word.size());
    return word;
  }

  // A quoted string without its quotes and escapes; nothing if there is none, or it does not end.
  std::optional<std::string> quoted() {
    if (rest_.empty() || rest_.front() != '"') return std::nullopt;
    std::string text;
    for (std::size_t at = 1; at < rest_.size(); ++at) {
      if (rest_[at] == '"') {
        rest_.remove_prefix(at + 1);
        return text;
      }
      if (rest_[at] == '\\' && ++at == rest_.size()) break;
      text += rest_[at];
    }
    return std::nullopt;
  }

 private:
  std::string_view rest_;
};

// warn-code SP warn-agent SP warn-text [SP warn-date]
std::optional<Warning> read_warning(Reader& reader) {
  constexpr std::string_view kBlanks = " \t";
  Warning warning;
  const std::string_view code = reader.word();
  const auto is_digit = [](unsigned char c) { return std::isdigit(c) != 0; };
  if (code.size() != 3 || !std::all_of(code.begin(), code.end(), is_digit)) return std::nullopt;
  for (const char digit : code) warning.code = warning.code * 10 + (digit - '0');
  if (!reader.skip(kBlanks)) return std::nullopt;
  warning.agent = reader.word();
  if (warning.agent.empty() || !reader.skip(kBlanks)) return std::nullopt;
  std::optional<std::string> text = reader.quoted();
  if (!text) return std::nullopt;
  warning.text = *std::move(text);
  if (reader.skip(kBlanks)) reader.quoted();  // the date, of no use to us
  return warning;
}

}  // namespace

std::string presentable(std::string text, std::size_t max_bytes) {
  constexpr std::string_view kMark = "...";
  if (text.size() > max_bytes) {
    std::size_t end = max_bytes - kMark.size();
    const auto continues = [](char c) { return (static_cast<unsigned char>(c) & 0xC0U) == 0x80U; };
    while (end > 0 && continues(text[end])) --end;  // not inside a character
    text.resize(end);
    text += kMark;
  }
  for (char& c : text) {
    if (std::iscntrl(static_cast<unsigned char>(c)) != 0) c = ' ';
  }
  return json::parse(json(text).dump(-1, ' ', false, json::error_handler_t::replace));
}

std::vector<Warning> parse_warnings(std::string_view header) {
  std::vector<Warning> warnings;
  Reader reader(header);
  reader.skip(" \t,");
  while (!reader.at_end()) {
    std::optional<Warning> warning = read_warning(reader);
    if (!warning) break;
    warnings.push_back(*std::move(warning));
    if (!reader.skip(" \t,")) break;
  }
  return warnings;
}

Warnings warning_texts(std::span<const std::string> headers) {
  constexpr int kMiscellaneousPersistent = 299;
  constexpr std::size_t kMaxWarningBytes = 1024;
  Warnings texts;
  std::size_t left_out = 0;
  for (const std::string& header : headers) {
    for (Warning& warning : parse_warnings(header)) {
      if (warning.code != kMiscellaneousPersistent || warning.text.empty()) continue;
      std::string text = presentable(std::move(warning.text), kMaxWarningBytes);
      if (std::find(texts.begin(), texts.end(), text) != texts.end()) continue;
      if (texts.size() == kMaxWarnings) {
        ++left_out;
      } else {
        texts.push_back(std::move(text));
      }
    }
  }
  if (left_out > 0) texts.push_back(std::to_string(left_out).append(" more warnings"));
  return texts;
}

}  // namespace lockstep::kube

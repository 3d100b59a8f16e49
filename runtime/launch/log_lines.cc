#include "runtime/launch/log_lines.h"

#include <algorithm>
#include <utility>

namespace lockstep::launch {

std::string LogLines::add(std::string_view written) {
  std::string lines;
  while (!written.empty()) {
    const std::size_t end = written.find('\n');
    const std::size_t room = kMaxLineBytes - line_.size();
    const std::size_t taken = std::min({end, written.size(), room});
    line_ += written.substr(0, taken);
    written.remove_prefix(taken);
    if (taken == end) {
      written.remove_prefix(1);
      lines += complete();
    } else if (line_.size() == kMaxLineBytes) {
      lines += complete();
    }
  }
  return lines;
}

std::string LogLines::finish() {
  return line_.empty() ? std::string() : complete();
}

std::string LogLines::complete() {
  const std::string line = std::exchange(line_, {});
  if (line.find_first_not_of(" \t\r") != std::string::npos) {
    last_line_ = line.substr(0, kMaxLastLineBytes);
  }
  return prefix_ + line + "\n";
}

}  // namespace lockstep::launch

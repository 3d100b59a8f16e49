// The output of a rank, line by line, told apart from that of its neighbours.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace lockstep::launch {

class LogLines {
 public:
  // Every line begins with `prefix`.
  explicit LogLines(std::string prefix) : prefix_(std::move(prefix)) {}

  // Takes what the rank wrote; returns the lines that it completes, or that have grown longer than
  // kMaxLineBytes, each with its prefix and its end.
  std::string add(std::string_view written);
  // The unfinished line, as if it had ended.
  std::string finish();
  // The last line that says something; cut at kMaxLastLineBytes.
  const std::string& last_line() const { return last_line_; }

  static constexpr std::size_t kMaxLineBytes = std::size_t{64} << 10;
  static constexpr std::size_t kMaxLastLineBytes = 512;

 private:
  std::string complete();

  const std::string prefix_;
  std::string line_;  // begun
  std::string last_line_;
};

}  // namespace lockstep::launch

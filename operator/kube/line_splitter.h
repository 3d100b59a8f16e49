// Cuts a stream of bytes into lines.
#pragma once

#include <functional>
#include <string>
#include <string_view>

namespace lockstep::kube {

class LineSplitter {
 public:
  // A line longer than `max_line_bytes` ends the stream.
  explicit LineSplitter(std::size_t max_line_bytes) : max_line_bytes_(max_line_bytes) {}

  // Hands every line that `bytes` completes, without its newline and never empty, to `on_line`.
  // Returns false as soon as `on_line` does, or when a line grows too long (see is_too_long()).
  bool feed(std::string_view bytes, const std::function<bool(std::string_view)>& on_line);

  // Hands out what came after the last line end, if anything.
  void finish(const std::function<bool(std::string_view)>& on_line) {
    if (!rest_.empty()) on_line(rest_);
    rest_.clear();
  }
  bool is_too_long() const { return too_long_; }

 private:
  std::size_t max_line_bytes_;
  std::string rest_;  // of an unfinished line
  bool too_long_ = false;
};

}  // namespace lockstep::kube

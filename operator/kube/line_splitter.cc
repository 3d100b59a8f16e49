#include "operator/kube/line_splitter.h"

namespace lockstep::kube {
namespace {

constexpr std::size_t kKeptBytes = 64 * 1024;  // of capacity between lines

}  // namespace

bool LineSplitter::feed(std::string_view bytes,
                        const std::function<bool(std::string_view)>& on_line) {
  while (!bytes.empty()) {
    const std::size_t end = bytes.find('\n');
    if (end == std::string_view::npos) {
      too_long_ = rest_.size() + bytes.size() > max_line_bytes_;
      if (!too_long_) rest_.append(bytes);
      return !too_long_;
    }
    std::string_view line = bytes.substr(0, end);
    bytes.remove_prefix(end + 1);
    if (!rest_.empty()) line = rest_.append(line);
    if (!line.empty() && line.back() == '\r') line.remove_suffix(1);
    const bool go_on = line.empty() || on_line(line);
    rest_.clear();
    if (rest_.capacity() > kKeptBytes) rest_.shrink_to_fit();
    if (!go_on) return false;
  }
  return true;
}

}  // namespace lockstep::kube

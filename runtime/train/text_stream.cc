#include "runtime/train/text_stream.h"

#include <span>
#include <string_view>

namespace lockstep::runtime {
namespace {

constexpr std::string_view kReplacement = "\xEF\xBF\xBD";  // of bytes that are no character

}  // namespace

std::string TextStream::rest() const {
  const std::span<const int32_t> window = std::span(tokens_).subspan(begin_);
  const std::string before = vocabulary_.decode(window.first(shown_ - begin_));
  const std::string all = vocabulary_.decode(window);
  return all.size() > before.size() ? all.substr(before.size()) : "";
}

std::string TextStream::add(int32_t token) {
  tokens_.push_back(token);
  const std::string piece = rest();
  if (piece.empty() || piece.ends_with(kReplacement)) return "";
  begin_ = shown_;
  shown_ = tokens_.size();
  return piece;
}

std::string TextStream::finish() {
  const std::string piece = rest();
  begin_ = shown_ = tokens_.size();
  return piece;
}

}  // namespace lockstep::runtime

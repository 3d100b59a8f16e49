// When a request to the hub is made again, and when it is given up.
#pragma once

#include <chrono>
#include <optional>

namespace lockstep::runtime {

// How a request ended that did not bring all it was to.
struct TryEnd {
  int status = 0;  // of the answer; 0: there was none, or it broke off
  // Whether a broken connection may be whole the next time: a certificate that is refused stays so.
  bool may_pass = true;
  std::optional<std::chrono::seconds> retry_after = std::nullopt;  // what the server asks for
};

// Whether another try may end otherwise.
bool is_passing(const TryEnd& end);

// The pause before the next try; nothing: give up.
//   fruitless: tries in a row, this one included, that brought not a byte.
// 1, 2, 4, 8 s, or what the server asks for up to ten minutes; five tries.
std::optional<std::chrono::seconds> pause_before_next(int fruitless, const TryEnd& end);

}  // namespace lockstep::runtime

// FNV-1a: a number that is the same for the same text in every build, on every machine.
#pragma once

#include <cstdint>
#include <string_view>

namespace lockstep::common {

// 64 bits. Source: http://www.isthe.com/chongo/tech/comp/fnv/
constexpr uint64_t fnv1a(std::string_view text) {
  uint64_t hash = 14695981039346656037ULL;
  for (const char c : text) {
    hash ^= static_cast<unsigned char>(c);
    hash *= 1099511628211ULL;
  }
  return hash;
}

}  // namespace lockstep::common

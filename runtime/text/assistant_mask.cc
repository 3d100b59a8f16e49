#include "runtime/text/assistant_mask.h"

#include <algorithm>
#include <cstddef>

namespace lockstep::runtime {

std::vector<bool> assistant_mask(const Encoding& encoding, std::span<const TextSpan> generated) {
  std::vector<bool> mask(encoding.ids.size(), false);
  for (const TextSpan& span : generated) {
    if (span.begin == span.end) continue;
    const auto overlaps = [&span](const TextSpan& token) {
      return token.begin < token.end && token.begin < span.end && span.begin < token.end;
    };
    const auto& tokens = encoding.offsets;
    const auto first = std::find_if(tokens.begin(), tokens.end(), overlaps);
    const auto last = std::find_if(tokens.rbegin(), tokens.rend(), overlaps).base();
    if (first == tokens.end()) continue;
    std::fill(mask.begin() + (first - tokens.begin()), mask.begin() + (last - tokens.begin()),
              true);
  }
  return mask;
}

}  // namespace lockstep::runtime

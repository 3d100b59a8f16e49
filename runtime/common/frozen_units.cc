#include "runtime/common/frozen_units.h"

#include <algorithm>
#include <cstdint>

#include "runtime/common/schema.h"

namespace lockstep::common {
namespace {

Error refused(const std::string& entry, const std::string& what) {
  return {ErrorCode::kInvalidArgument, "\"" + entry + "\" " + what,
          "name embedding, head, layer.N or layer.N-M"};
}

}  // namespace

Result<std::vector<bool>> frozen_units(const std::vector<std::string>& entries,
                                       int64_t num_layers) {
  constexpr std::size_t kPrefixLength = 6;  // "layer."
  std::vector<bool> frozen(static_cast<std::size_t>(num_layers + 2), false);
  for (const std::string& entry : entries) {
    if (!matches(entry, kFrozenPattern)) return refused(entry, "names no unit");
    if (entry == "embedding") {
      frozen.front() = true;
    } else if (entry == "head") {
      frozen.back() = true;
    } else {
      const std::size_t dash = entry.find('-');
      const int64_t first = std::stoll(entry.substr(kPrefixLength));
      const int64_t last = dash == std::string::npos ? first : std::stoll(entry.substr(dash + 1));
      if (last < first) return refused(entry, "ends before it begins");
      if (last >= num_layers) {
        return refused(entry, "is beyond the last layer, " + std::to_string(num_layers - 1));
      }
      std::fill(frozen.begin() + 1 + first, frozen.begin() + 2 + last, true);
    }
  }
  if (std::find(frozen.begin(), frozen.end(), false) == frozen.end()) {
    return Error{ErrorCode::kInvalidArgument, "leaves nothing to train",
                 "leave a layer or the head out"};
  }
  return frozen;
}

}  // namespace lockstep::common

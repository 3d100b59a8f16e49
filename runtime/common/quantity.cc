#include "runtime/common/quantity.h"

#include <array>
#include <charconv>
#include <cmath>
#include <string_view>

namespace lockstep::common {
namespace {

struct Suffix {
  std::string_view text;
  double factor;
};

constexpr std::array<Suffix, 16> kSuffixes = {{{"", 1},
                                               {"Ki", 0x1p10},
                                               {"Mi", 0x1p20},
                                               {"Gi", 0x1p30},
                                               {"Ti", 0x1p40},
                                               {"Pi", 0x1p50},
                                               {"Ei", 0x1p60},
                                               {"n", 1e-9},
                                               {"u", 1e-6},
                                               {"m", 1e-3},
                                               {"k", 1e3},
                                               {"M", 1e6},
                                               {"G", 1e9},
                                               {"T", 1e12},
                                               {"P", 1e15},
                                               {"E", 1e18}}};

}  // namespace

std::optional<int64_t> quantity_bytes(const std::string& text) {
  double number = 0;
  const auto [rest, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || !(number >= 0)) return std::nullopt;
  const std::string_view suffix(rest, static_cast<size_t>(text.data() + text.size() - rest));
  double factor = 0;
  for (const Suffix& known : kSuffixes) {
    if (suffix == known.text) factor = known.factor;
  }
  const double bytes = std::ceil(number * factor);
  if (factor == 0 || !(bytes < 0x1p63)) return std::nullopt;
  return static_cast<int64_t>(bytes);
}

}  // namespace lockstep::common

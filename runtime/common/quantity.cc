#include "runtime/common/quantity.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <limits>
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

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

// "Ki", "m", "" ... or an exponent as "e3".
bool is_unit(std::string_view text) {
  const bool is_suffix = std::any_of(kSuffixes.begin(), kSuffixes.end(),
                                     [&](const Suffix& known) { return text == known.text; });
  if (is_suffix) return true;
  if (text.front() != 'e' && text.front() != 'E') return false;
  text.remove_prefix(1);
  if (!text.empty() && (text.front() == '-' || text.front() == '+')) text.remove_prefix(1);
  return !text.empty() && std::all_of(text.begin(), text.end(), is_digit);
}

// The decimal number `digits` times `factor`, as digits.
std::string multiply_digits(std::string digits, int64_t factor) {
  constexpr int64_t kBase = 10;
  int64_t carry = 0;
  for (auto digit = digits.rbegin(); digit != digits.rend(); ++digit) {
    carry += (*digit - '0') * factor;
    *digit = static_cast<char>('0' + carry % kBase);
    carry /= kBase;
  }
  if (carry > 0) digits.insert(0, std::to_string(carry));
  const std::size_t first = digits.find_first_not_of('0');
  return first == std::string::npos ? "0" : digits.substr(first);
}

struct Parts {
  std::string digits;  // without the point
  std::size_t num_decimals = 0;
  std::string_view unit;
};

// Nothing if `given` is no quantity without a sign.
std::optional<Parts> split(std::string_view given) {
  Parts parts;
  bool has_point = false;
  std::size_t size = 0;
  for (; size < given.size() && (is_digit(given[size]) || given[size] == '.'); ++size) {
    if (given[size] == '.') {
      if (has_point) return std::nullopt;
      has_point = true;
      continue;
    }
    parts.digits += given[size];
    parts.num_decimals += has_point ? 1 : 0;
  }
  parts.unit = given.substr(size);
  if (parts.digits.empty() || !is_unit(parts.unit)) return std::nullopt;
  return parts;
}

std::string_view without_plus(std::string_view text) {
  if (text.starts_with('+')) text.remove_prefix(1);
  return text;
}

// The quantity times `scale`, rounded up; nothing if it is none or does not fit. Number: how exact.
template <typename Number>
std::optional<int64_t> scaled_up(const std::string& text, int64_t scale) {
  const std::string_view given = without_plus(text);
  if (!split(given)) return std::nullopt;
  const char* const end = given.data() + given.size();
  Number number = 0;
  const auto [rest, error] = std::from_chars(given.data(), end, number);
  if (error != std::errc()) return std::nullopt;
  const std::string_view suffix(rest, static_cast<size_t>(end - rest));
  double factor = 0;
  for (const Suffix& known : kSuffixes) {
    if (suffix == known.text) factor = known.factor * static_cast<double>(scale);
  }
  if (factor == 0) return std::nullopt;
  // Powers of ten below 1 are exact only as divisors.
  const Number scaled = std::ceil(factor < 1 ? number / static_cast<Number>(std::round(1 / factor))
                                             : number * static_cast<Number>(factor));
  if (!(scaled < static_cast<Number>(0x1p63))) return std::nullopt;
  return static_cast<int64_t>(scaled);
}

}  // namespace

std::optional<std::string> multiply_quantity(const std::string& text, int64_t factor) {
  const std::optional<Parts> parts = split(without_plus(text));
  if (!parts) return std::nullopt;
  const std::size_t num_decimals = parts->num_decimals;
  std::string product = multiply_digits(parts->digits, factor);
  if (num_decimals > 0) {
    if (product.size() <= num_decimals) {
      product = std::string(num_decimals + 1 - product.size(), '0') + product;
    }
    product.insert(product.size() - num_decimals, 1, '.');
    product.resize(product.find_last_not_of('0') + 1);
    if (product.back() == '.') product.pop_back();
  }
  return product.append(parts->unit);
}

std::optional<int64_t> quantity_bytes(const std::string& text) {
  return scaled_up<double>(text, 1);
}

std::optional<std::string> add_quantities(const std::string& a, const std::string& b) {
  constexpr int64_t kThousandths = 1000;
  const std::optional<int64_t> first = scaled_up<long double>(a, kThousandths);
  const std::optional<int64_t> second = scaled_up<long double>(b, kThousandths);
  if (!first || !second || *first > std::numeric_limits<int64_t>::max() - *second) {
    return std::nullopt;
  }
  const int64_t sum = *first + *second;
  if (sum % kThousandths != 0) return std::to_string(sum) + "m";
  return std::to_string(sum / kThousandths);
}

}  // namespace lockstep::common

#include "runtime/common/quantity.h"

#include <algorithm>
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

}  // namespace

std::optional<std::string> multiply_quantity(const std::string& text, int64_t factor) {
  const std::string_view given = text.starts_with('+') ? std::string_view(text).substr(1) : text;
  std::string digits;
  std::size_t num_decimals = 0;
  bool has_point = false;
  std::size_t size = 0;
  for (; size < given.size() && (is_digit(given[size]) || given[size] == '.'); ++size) {
    if (given[size] == '.') {
      if (has_point) return std::nullopt;
      has_point = true;
      continue;
    }
    digits += given[size];
    num_decimals += has_point ? 1 : 0;
  }
  if (digits.empty() || !is_unit(given.substr(size))) return std::nullopt;
  std::string product = multiply_digits(digits, factor);
  if (num_decimals > 0) {
    if (product.size() <= num_decimals) {
      product = std::string(num_decimals + 1 - product.size(), '0') + product;
    }
    product.insert(product.size() - num_decimals, 1, '.');
    product.resize(product.find_last_not_of('0') + 1);
    if (product.back() == '.') product.pop_back();
  }
  return product + std::string(given.substr(size));
}

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

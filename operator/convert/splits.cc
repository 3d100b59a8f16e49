#include "operator/convert/splits.h"

#include <charconv>
#include <optional>
#include <string>
#include <system_error>

#include <nlohmann/json.hpp>

namespace lockstep::convert {
namespace {

using nlohmann::json;

// Percents [from, to) of a split.
struct Slice {
  std::string split{};
  int64_t from = 0, to = 100;
};

// Nothing if `text` is no slice by percents from the begin or to the end.
std::optional<Slice> slice_in(const std::string& text) {
  const std::size_t open = text.find('[');
  if (open == std::string::npos || !text.ends_with(']')) return {};
  std::string range = text.substr(open + 1, text.size() - open - 2);
  const bool is_head = range.starts_with(':');
  if (!is_head && !range.ends_with(':')) return {};
  range.erase(is_head ? 0 : range.size() - 1, 1);
  int64_t percent = 0;
  const char* const last = range.data() + range.size();
  const auto [end, wrong] = std::from_chars(range.data(), last, percent);
  if (wrong != std::errc() || std::string(end, last) != "%") return {};
  if (percent <= 0 || percent >= 100) return {};
  Slice slice{.split = text.substr(0, open)};
  (is_head ? slice.to : slice.from) = percent;
  return slice;
}

// The share of the second, if both are slices that make up one split.
std::optional<double> held_out_share(const json& train, const json& valid) {
  if (!train.is_string() || !valid.is_string()) return {};
  const std::optional<Slice> kept = slice_in(train.get<std::string>());
  const std::optional<Slice> held_out = slice_in(valid.get<std::string>());
  if (!kept || !held_out || kept->split != held_out->split) return {};
  if (kept->to != held_out->from && held_out->to != kept->from) return {};
  return static_cast<double>(held_out->to - held_out->from) / 100;
}

}  // namespace

Verdict take_train_split(const json& train, const json* valid) {
  if (valid != nullptr && held_out_share(train, *valid)) {
    return mapped("what data.validationFraction leaves");
  }
  if (train.is_string() && train.get<std::string>().find('[') != std::string::npos) {
    return refused("name a file with those rows as data.train");
  }
  return changed("a split is a file here: data.train");
}

Verdict take_valid_split(const json& valid, const json* train, Draft& draft) {
  const auto share = train != nullptr ? held_out_share(*train, valid) : std::nullopt;
  if (share) {
    return draft.change("train.data.validationFraction", *share,
                        "as many rows, chosen by the seed and not by their places");
  }
  draft.fill_in("train.data.validation", "/data/validation.jsonl", "files of the validation split");
  return changed("a split is a file here: data.validation");
}

}  // namespace lockstep::convert

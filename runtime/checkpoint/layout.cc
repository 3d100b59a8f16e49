#include "runtime/checkpoint/layout.h"

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <map>
#include <system_error>

#include "runtime/common/system_error.h"

namespace lockstep::runtime {
namespace {

constexpr std::string_view kStepPrefix = "step-";
constexpr std::string_view kAttemptPrefix = ".attempt-";

// Takes `prefix` and then a decimal number without sign or leading zeros from the front of `text`.
std::optional<int64_t> take_number(std::string_view& text, std::string_view prefix) {
  if (!text.starts_with(prefix)) return std::nullopt;
  const std::string_view digits = text.substr(prefix.size());
  int64_t number = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), number);
  const auto num_digits = static_cast<std::size_t>(end - digits.data());
  if (error != std::errc() || number < 0 || std::to_string(number).size() != num_digits) {
    return std::nullopt;
  }
  text = digits.substr(num_digits);
  return number;
}

}  // namespace

std::string checkpoints_folder(const std::string& output) {
  return output + "/checkpoints";
}

std::string step_name(int64_t step) {
  return std::string(kStepPrefix) + std::to_string(step);
}

std::string attempt_name(int64_t attempt, int64_t step) {
  return std::string(kAttemptPrefix) + std::to_string(attempt) + "-" + step_name(step);
}

std::string shard_name(int64_t rank) {
  return "rank-" + std::to_string(rank) + ".bin";
}

std::optional<int64_t> parse_step_name(std::string_view name) {
  const std::optional<int64_t> step = take_number(name, kStepPrefix);
  return name.empty() ? step : std::nullopt;
}

std::optional<AttemptStep> parse_attempt_name(std::string_view name) {
  const std::optional<int64_t> attempt = take_number(name, kAttemptPrefix);
  if (!attempt || !name.starts_with('-')) return std::nullopt;
  const std::optional<int64_t> step = parse_step_name(name.substr(1));
  if (!step) return std::nullopt;
  return AttemptStep{*attempt, *step};
}

int64_t piece_bytes(const Piece& piece) {
  return piece.num_elems * static_cast<int64_t>(sizeof(float));
}

common::Result<void> check_file_sizes(const std::string& folder, const Manifest& manifest) {
  std::map<std::string, int64_t> expected_bytes;
  for (const Piece& piece : manifest.pieces) {
    int64_t& bytes = expected_bytes[piece.file];
    bytes = std::max(bytes, piece.offset_bytes + piece_bytes(piece));
  }
  for (const auto& [name, expected] : expected_bytes) {
    const std::string path = folder + "/" + name;
    std::error_code error;
    const std::uintmax_t found = std::filesystem::file_size(path, error);
    if (error == std::errc::no_such_file_or_directory) {
      return common::Error{common::ErrorCode::kDataLoss,
                           "cannot find shard " + path + ": " + error.message(), ""};
    }
    if (error) return common::system_error("look at", path, error.value());
    if (found != static_cast<std::uintmax_t>(expected)) {
      return common::Error{common::ErrorCode::kDataLoss,
                           "shard " + path + " has " + std::to_string(found) +
                               " bytes, its manifest says " + std::to_string(expected),
                           ""};
    }
  }
  return {};
}

}  // namespace lockstep::runtime

#include "operator/cli/tune_search.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <regex>

#include "operator/api/manifest.h"
#include "runtime/common/choose_strategy.h"
#include "runtime/common/estimate_memory.h"

namespace lockstep::cli {
namespace {

using common::Error;
using common::ErrorCode;
using common::Result;
using nlohmann::json;

// What ranks then report of themselves is within a tenth of the estimate.
constexpr int64_t kTolerancePercent = 10;

const TuneTrial* find_trial(const std::vector<TuneTrial>& trials, int64_t micro_batch) {
  const auto found =
      std::find_if(trials.begin(), trials.end(),
                   [micro_batch](const TuneTrial& one) { return one.micro_batch == micro_batch; });
  return found == trials.end() ? nullptr : &*found;
}

// The largest that the estimate lets fit; the smallest if none does.
std::size_t first_guess(const std::vector<TuneCandidate>& candidates, int64_t memory_bytes) {
  std::size_t guess = 0;
  for (std::size_t i = 0; i < candidates.size(); ++i) {
    if (candidates[i].estimated_bytes <= memory_bytes) guess = i;
  }
  return guess;
}

std::string right_column(const std::string& text, int width) {
  std::array<char, 64> out{};
  std::snprintf(out.data(), out.size(), "%*s", width, text.c_str());
  return out.data();
}

std::string mebibytes_text(int64_t bytes) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%.1f", static_cast<double>(bytes) / 0x1p20);
  return text.data();
}

std::string verdict_of(const TuneCandidate& candidate, const TuneTrial* trial,
                       const TuneReport& report) {
  if (trial != nullptr) {
    if (!trial->has_run) return "out of memory";
    return trial->fits ? "fits" : "does not fit";
  }
  return candidate.estimated_bytes <= report.memory_bytes ? "fits, says the estimate"
                                                          : "does not fit, says the estimate";
}

// `key: 12` on a line of its own or in braces, before any comment.
std::regex number_field(const std::string& key) {
  return std::regex("^([^#]*\\b" + key + "\\s*:\\s*)([0-9]+)(.*)$");
}

// The line of `key` in `lines`, if it is there once.
std::optional<std::size_t> only_line(const std::vector<std::string>& lines,
                                     const std::string& key) {
  std::optional<std::size_t> found;
  const std::regex field = number_field(key);
  for (std::size_t i = 0; i < lines.size(); ++i) {
    if (!std::regex_match(lines[i], field)) continue;
    if (found) return std::nullopt;
    found = i;
  }
  return found;
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::size_t begin = 0;
  while (begin < text.size()) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    lines.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return lines;
}

// One edit: the number of microBatchSize, or of accumulationSteps with its name, or microBatchSize
// beside globalBatchSize.
bool edit(std::vector<std::string>& lines, int64_t micro_batch) {
  const std::string value = std::to_string(micro_batch);
  for (const char* const key : {"microBatchSize", "accumulationSteps"}) {
    const std::optional<std::size_t> at = only_line(lines, key);
    if (!at) continue;
    std::smatch parts;
    std::regex_match(lines[*at], parts, number_field(key));
    std::string before = parts[1];
    before.replace(before.rfind(key), std::string(key).size(), "microBatchSize");
    lines[*at] = before + value + parts[3].str();
    return true;
  }
  const std::optional<std::size_t> at = only_line(lines, "globalBatchSize");
  if (!at) return false;
  std::smatch parts;
  std::regex_match(lines[*at], parts, number_field("globalBatchSize"));
  const bool is_flow = parts[1].str().find('{') != std::string::npos;
  if (is_flow) {
    lines[*at] = parts[1].str() + parts[2].str() + ", microBatchSize: " + value + parts[3].str();
    return true;
  }
  const std::string indent = lines[*at].substr(0, lines[*at].find_first_not_of(' '));
  lines.insert(lines.begin() + static_cast<std::ptrdiff_t>(*at) + 1,
               indent + "microBatchSize: " + value);
  return true;
}

}  // namespace

std::vector<TuneCandidate> tune_candidates(const common::TrainConfig& train, int64_t ranks,
                                           int64_t memory_bytes) {
  std::vector<TuneCandidate> candidates;
  const int64_t global_batch = train.batch.global_batch_size;
  for (int64_t micro_batch = 1; micro_batch * ranks <= global_batch; ++micro_batch) {
    if (global_batch % (micro_batch * ranks) != 0) continue;
    common::TrainConfig tried = train;
    tried.batch.micro_batch_size = micro_batch;
    const common::Strategy strategy = common::choose_strategy(tried, ranks, memory_bytes).strategy;
    const common::MemoryEstimate memory = common::estimate_memory(tried, strategy, ranks);
    candidates.push_back({.micro_batch = micro_batch,
                          .accumulation = global_batch / (micro_batch * ranks),
                          .strategy = strategy,
                          .estimated_bytes = memory.total(),
                          .snapshot_bytes = memory.snapshot});
  }
  return candidates;
}

std::optional<std::size_t> next_trial(const std::vector<TuneCandidate>& candidates,
                                      const std::vector<TuneTrial>& trials,
                                      const TuneLimits& limits) {
  if (candidates.empty() || trials.size() >= static_cast<std::size_t>(limits.max_trials)) {
    return std::nullopt;
  }
  if (trials.empty()) return first_guess(candidates, limits.memory_bytes);
  std::optional<std::size_t> largest_fit;
  std::size_t smallest_misfit = candidates.size();
  for (std::size_t i = 0; i < candidates.size(); ++i) {
    const TuneTrial* const trial = find_trial(trials, candidates[i].micro_batch);
    if (trial == nullptr) continue;
    if (trial->fits) largest_fit = i;
    if (!trial->fits) smallest_misfit = std::min(smallest_misfit, i);
  }
  if (!largest_fit) {
    if (smallest_misfit == 0) return std::nullopt;
    return smallest_misfit - 1;
  }
  const std::size_t above = *largest_fit + 1;
  const int64_t hope = limits.memory_bytes / 100 * (100 + kTolerancePercent);
  if (above < smallest_misfit && candidates[above].estimated_bytes <= hope) return above;
  for (std::size_t i = *largest_fit; i-- > 0;) {
    if (find_trial(trials, candidates[i].micro_batch) == nullptr) return i;
  }
  return std::nullopt;
}

std::optional<TuneTrial> best_trial(const std::vector<TuneTrial>& trials) {
  std::optional<TuneTrial> best;
  for (const TuneTrial& trial : trials) {
    if (trial.fits && (!best || trial.micro_batch > best->micro_batch)) best = trial;
  }
  return best;
}

std::string set_of(int64_t micro_batch) {
  return "train.batch.microBatchSize=" + std::to_string(micro_batch);
}

std::string render_tuning(const TuneReport& report) {
  std::string text = report.job + ": global batch " + std::to_string(report.global_batch) + " on " +
                     std::to_string(report.ranks) + " ranks; a rank has " +
                     mebibytes_text(report.memory_bytes) + " MiB (" + report.memory_source + ")\n";
  text += "micro-batch  accumulation  strategy   estimate MiB  measured MiB    tokens/s\n";
  const std::optional<TuneTrial> best = best_trial(report.trials);
  for (const TuneCandidate& candidate : report.candidates) {
    const TuneTrial* const trial = find_trial(report.trials, candidate.micro_batch);
    const bool has_run = trial != nullptr && trial->has_run;
    const bool is_best = best && best->micro_batch == candidate.micro_batch;
    text += right_column(std::to_string(candidate.micro_batch) + (is_best ? " *" : "  "), 11);
    text += right_column(std::to_string(candidate.accumulation), 14);
    text += right_column(std::string(common::to_string(candidate.strategy)), 10);
    text += right_column(mebibytes_text(candidate.estimated_bytes), 15);
    text += right_column(has_run ? mebibytes_text(trial->measured_bytes) : "-", 14);
    text += right_column(
        has_run ? std::to_string(static_cast<int64_t>(trial->tokens_per_second)) : "-", 12);
    text += "  " + verdict_of(candidate, trial, report) + "\n";
  }
  if (!best) return text;
  const auto fastest = std::max_element(report.trials.begin(), report.trials.end(),
                                        [](const TuneTrial& one, const TuneTrial& other) {
                                          const double speed = one.fits ? one.tokens_per_second : 0;
                                          return speed < (other.fits ? other.tokens_per_second : 0);
                                        });
  text += "* the largest that fits: --set " + set_of(best->micro_batch) + "\n";
  if (fastest->micro_batch != best->micro_batch) {
    text += "the fastest of those that ran: --set " + set_of(fastest->micro_batch) + "\n";
  }
  return text;
}

json to_json(const TuneReport& report) {
  json candidates = json::array();
  for (const TuneCandidate& candidate : report.candidates) {
    json line = {{"microBatchSize", candidate.micro_batch},
                 {"accumulationSteps", candidate.accumulation},
                 {"strategy", common::to_string(candidate.strategy)},
                 {"estimatedBytes", candidate.estimated_bytes}};
    if (const TuneTrial* const trial = find_trial(report.trials, candidate.micro_batch)) {
      line["trial"] = {{"outOfMemory", !trial->has_run}, {"fits", trial->fits}};
      if (trial->has_run) {
        line["trial"]["measuredBytes"] = trial->measured_bytes;
        line["trial"]["tokensPerSecond"] = trial->tokens_per_second;
      }
    }
    candidates.push_back(std::move(line));
  }
  const std::optional<TuneTrial> best = best_trial(report.trials);
  return {{"job", report.job},
          {"ranks", report.ranks},
          {"globalBatchSize", report.global_batch},
          {"memoryBytes", report.memory_bytes},
          {"memorySource", report.memory_source},
          {"candidates", std::move(candidates)},
          {"best", best ? json(best->micro_batch) : json()},
          {"set", best ? json(set_of(best->micro_batch)) : json()}};
}

Result<std::string> with_micro_batch(const std::string& manifest, int64_t micro_batch,
                                     int64_t global_batch) {
  std::vector<std::string> lines = lines_of(manifest);
  std::string text;
  if (edit(lines, micro_batch)) {
    for (const std::string& line : lines) text += line + "\n";
    const api::Manifest read = api::parse_manifest(text, {.file_name = "job.yaml"});
    const json& train = read.job.spec.train;
    const json::json_pointer micro("/batch/microBatchSize");
    const json::json_pointer global("/batch/globalBatchSize");
    const bool is_meant = !common::has_errors(read.problems) && train.contains(micro) &&
                          train.at(micro) == micro_batch && train.contains(global) &&
                          train.at(global) == global_batch;
    if (is_meant) return text;
  }
  return Error{ErrorCode::kInvalidArgument, "its batch cannot be edited in place",
               "set it by hand, or with --set " + set_of(micro_batch)};
}

}  // namespace lockstep::cli

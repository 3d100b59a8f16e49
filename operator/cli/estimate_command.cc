#include "operator/cli/estimate_command.h"

#include <array>
#include <cstdio>
#include <iostream>

#include "operator/cli/exit_status.h"
#include "operator/cli/verb.h"
#include "runtime/common/choose_strategy.h"
#include "runtime/common/quantity.h"
#include "runtime/common/teacher_model.h"

namespace lockstep::cli {
namespace {

using common::MemoryEstimate;
using common::Strategy;
using nlohmann::json;

// A part of an estimate, as people and machines call it.
struct Column {
  const char* title;
  const char* key;
  int64_t MemoryEstimate::*bytes;
};

constexpr std::array<Column, 10> kColumns = {
    {{"weights", "weightsBytes", &MemoryEstimate::weights},
     {"gradients", "gradientsBytes", &MemoryEstimate::gradients},
     {"optimizer", "optimizerBytes", &MemoryEstimate::optimizer},
     {"activations", "activationsBytes", &MemoryEstimate::activations},
     {"logits", "logitsBytes", &MemoryEstimate::logits},
     {"gathered", "gatheredBytes", &MemoryEstimate::gathered},
     {"sums", "partialSumsBytes", &MemoryEstimate::partial_sums},
     {"windows", "windowsBytes", &MemoryEstimate::windows},
     {"snapshot", "snapshotBytes", &MemoryEstimate::snapshot},
     {"process", "processBytes", &MemoryEstimate::process}}};
constexpr int kWidth = 12;

std::string mebibytes(int64_t bytes) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%.1f", static_cast<double>(bytes) / 0x1p20);
  return text.data();
}

std::string right_aligned(const std::string& text) {
  const auto width = static_cast<std::size_t>(kWidth);
  return text.size() < width ? std::string(width - text.size(), ' ') + text : " " + text;
}

bool fits(const EstimateReport& report, const MemoryEstimate& memory) {
  return !report.limit_bytes || memory.total() <= *report.limit_bytes;
}

std::string render_line(const EstimateReport& report, const StrategyEstimate& line) {
  std::string text(common::to_string(line.strategy));
  if (line.chosen) text += " *";
  text.resize(8, ' ');
  for (const Column& column : kColumns) {
    text += right_aligned(mebibytes(line.memory.*column.bytes));
  }
  text += right_aligned(mebibytes(line.memory.total()));
  if (!fits(report, line.memory)) text += "  does not fit";
  if (line.memory.nvme > 0) text += "  and " + mebibytes(line.memory.nvme) + " on nvme";
  return text + "\n";
}

std::string trained_text(const EstimateReport& report) {
  if (report.num_trained == report.num_parameters) return "";
  return std::to_string(report.num_trained) + " trained, ";
}

// The memory that the job lets a rank have.
std::optional<int64_t> memory_limit(const api::TrainingJob& job) {
  const json::json_pointer pointer("/limits/memory");
  if (!job.spec.resources.is_object() || !job.spec.resources.contains(pointer)) return std::nullopt;
  const json& limit = job.spec.resources.at(pointer);
  return common::quantity_bytes(limit.is_string() ? limit.get<std::string>() : limit.dump());
}

}  // namespace

EstimateReport estimate_job(const std::string& name, const common::TrainConfig& train,
                            int64_t ranks, std::optional<int64_t> limit_bytes) {
  EstimateReport report{.job = name,
                        .ranks = ranks,
                        .precision = std::string(common::to_string(train.precision)),
                        .num_parameters = common::num_parameters(train.model),
                        .num_trained = common::num_trained_parameters(train),
                        .limit_bytes = limit_bytes,
                        .reason = "",
                        .strategies = {}};
  const common::StrategyChoice choice =
      common::choose_strategy(train, ranks, limit_bytes.value_or(0));
  report.reason = choice.reason;
  for (const Strategy strategy :
       {Strategy::kDdp, Strategy::kZero1, Strategy::kZero2, Strategy::kZero3}) {
    report.strategies.push_back({.strategy = strategy,
                                 .memory = common::estimate_memory(train, strategy, ranks),
                                 .chosen = strategy == choice.strategy});
  }
  return report;
}

std::string render_table(const EstimateReport& report) {
  std::string text = report.job + ": " + std::to_string(report.num_parameters) + " parameters, " +
                     trained_text(report) + std::to_string(report.ranks) + " ranks, " +
                     report.precision + "; MiB of a rank\n";
  std::string header(8, ' ');
  for (const Column& column : kColumns) header += right_aligned(column.title);
  text += header + right_aligned("total") + "\n";
  for (const StrategyEstimate& line : report.strategies) text += render_line(report, line);
  text += "* " + report.reason + "\n";
  if (report.limit_bytes) {
    text += "resources.limits.memory is " + mebibytes(*report.limit_bytes) + " MiB\n";
  }
  return text;
}

json to_json(const EstimateReport& report) {
  json strategies = json::array();
  for (const StrategyEstimate& line : report.strategies) {
    json object = {{"strategy", common::to_string(line.strategy)},
                   {"chosen", line.chosen},
                   {"fits", fits(report, line.memory)},
                   {"totalBytes", line.memory.total()},
                   {"bytesOnNvme", line.memory.nvme}};
    for (const Column& column : kColumns) object[column.key] = line.memory.*column.bytes;
    strategies.push_back(std::move(object));
  }
  return {{"job", report.job},
          {"ranks", report.ranks},
          {"precision", report.precision},
          {"parameters", report.num_parameters},
          {"trainedParameters", report.num_trained},
          {"limitBytes", report.limit_bytes ? json(*report.limit_bytes) : json()},
          {"reason", report.reason},
          {"strategies", std::move(strategies)}};
}

std::optional<std::string> explain_auto_strategy(const common::TrainConfig& train, int64_t ranks,
                                                 std::optional<int64_t> limit_bytes) {
  if (train.parallelism.strategy != Strategy::kAuto) return std::nullopt;
  const common::StrategyChoice choice =
      common::choose_strategy(train, ranks, limit_bytes.value_or(0));
  std::string line = "train.parallelism.strategy: auto -> " + choice.reason;
  if (!limit_bytes) line += "; without resources.limits.memory a rank's free memory decides";
  if (!choice.fits) line += "; the run will refuse to start";
  return line;
}

std::optional<std::string> explain_auto_strategy(const api::TrainingJob& job) {
  if (job.spec.train.is_null()) return std::nullopt;
  const auto train = common::complete_train(job.spec.train, job.spec.ranks);
  if (!train) return std::nullopt;  // model.path is elsewhere, which was said
  const auto decoded = common::decode_with_teacher(*train);
  if (!decoded) return std::nullopt;  // so is the teacher
  return explain_auto_strategy(*decoded, job.spec.ranks, memory_limit(job));
}

namespace {

struct EstimateArguments {
  ManifestArguments manifest;
  std::string output = "text";  // or json
};

int estimate(const EstimateArguments& arguments) {
  const std::optional<api::Manifest> manifest =
      load_and_report(arguments.manifest, MissingInputs::kWarn);
  if (!manifest) return kInvalidFile;
  const api::TrainingJob& job = manifest->job;
  if (job.spec.train.is_null()) {
    std::cerr << "error: " << arguments.manifest.file
              << ": spec.command: nothing is known about the memory of a program of one's own\n";
    return kInvalidFile;
  }
  const auto train = common::complete_train(job.spec.train, job.spec.ranks);
  if (!train) {
    std::cerr << "error: " << arguments.manifest.file
              << ": spec.train.model.path: " << train.error().message << " (" << train.error().hint
              << ")\n";
    return kInvalidFile;
  }
  const auto decoded = common::decode_with_teacher(*train);
  if (!decoded) {
    std::cerr << "error: " << arguments.manifest.file << ": spec." << decoded.error().message
              << " (" << decoded.error().hint << ")\n";
    return kInvalidFile;
  }
  const EstimateReport report =
      estimate_job(job.meta.name, *decoded, job.spec.ranks, memory_limit(job));
  std::cout << (arguments.output == "json" ? to_json(report).dump(2) + "\n" : render_table(report));
  return kOk;
}

}  // namespace

void add_estimate(CLI::App& app, int& status) {
  CLI::App& verb =
      *app.add_subcommand("estimate", "print what a rank will hold in memory, per strategy");
  verb.group(kPrepareGroup);
  EstimateArguments& arguments = run_when_parsed(verb, status, estimate);
  add_manifest_arguments(verb, arguments.manifest);
  verb.add_option("--output", arguments.output, "text, or json for machines; default text")
      ->check(CLI::IsMember({"text", "json"}));
  verb.footer(
      "Example: lockstep estimate job.yaml --set ranks=8 --set train.batch.microBatchSize=4\n"
      "What the numbers are made of: docs/guides/strategies.md.");
}

}  // namespace lockstep::cli

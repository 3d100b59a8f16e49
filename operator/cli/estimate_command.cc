#include "operator/cli/estimate_command.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <iostream>

#include "operator/cli/advice.h"
#include "operator/cli/exit_status.h"
#include "operator/cli/verb.h"
#include "runtime/common/choose_strategy.h"
#include "runtime/common/hub_reference.h"
#include "runtime/common/suggest.h"
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
constexpr std::array kStrategies = {Strategy::kDdp, Strategy::kZero1, Strategy::kZero2,
                                    Strategy::kZero3};

// Of a teacher on the hub nothing is known before it is fetched.
bool is_elsewhere(const common::DistillConfig& distill) {
  return common::is_hub_reference(distill.teacher);
}

std::string mebibytes(int64_t bytes) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%.1f", static_cast<double>(bytes) / 0x1p20);
  return text.data();
}

std::string right_aligned(const std::string& text) {
  const auto width = static_cast<std::size_t>(kWidth);
  return text.size() < width ? std::string(width - text.size(), ' ') + text : " " + text;
}

bool fits(const EstimateReport& report, int64_t total_bytes) {
  return !report.memory.limit_bytes || total_bytes <= *report.memory.limit_bytes;
}

std::string render_line(const EstimateReport& report, const StrategyEstimate& line) {
  std::string text(common::to_string(line.strategy));
  if (line.chosen) text += " *";
  text.resize(8, ' ');
  for (const Column& column : kColumns) {
    text += right_aligned(mebibytes(line.memory.*column.bytes));
  }
  text += right_aligned(mebibytes(line.memory.total()));
  if (!fits(report, line.memory.total())) text += "  does not fit";
  if (line.memory.nvme > 0) text += "  and " + mebibytes(line.memory.nvme) + " on nvme";
  return text + "\n";
}

std::string trained_text(const EstimateReport& report) {
  if (report.num_trained == report.num_parameters) return "";
  return std::to_string(report.num_trained) + " trained, ";
}

bool on_gpu(const RankMemory& memory) {
  return memory.device == common::RankDevice::kGpu;
}

// The job's own number of ranks in the middle, where there are as many on both sides.
std::vector<int64_t> rank_counts_around(const common::TrainConfig& train, int64_t ranks) {
  constexpr std::ptrdiff_t kMost = 8;
  std::vector<int64_t> counts = common::rank_counts_for(train.batch.num_micro_batches());
  const int64_t group = train.parallelism.shard_ranks;
  if (group > 0) std::erase_if(counts, [group](int64_t count) { return count % group != 0; });
  const auto size = static_cast<std::ptrdiff_t>(counts.size());
  const auto own = std::lower_bound(counts.begin(), counts.end(), ranks) - counts.begin();
  const auto first =
      std::clamp<std::ptrdiff_t>(own - kMost / 2, 0, std::max<std::ptrdiff_t>(size - kMost, 0));
  return {counts.begin() + first, counts.begin() + std::min(first + kMost, size)};
}

std::string render_rank_counts(const EstimateReport& report) {
  std::string text = "in all, by ranks\n" + std::string(8, ' ');
  for (const StrategyEstimate& line : report.strategies) {
    text += right_aligned(std::string(common::to_string(line.strategy)));
  }
  text += '\n';
  for (const RankCountEstimate& line : report.rank_counts) {
    std::string count = std::to_string(line.ranks) + (line.ranks == report.ranks ? " *" : "");
    count.resize(8, ' ');
    text += count;
    for (const int64_t bytes : line.total_bytes) {
      const std::string size = mebibytes(bytes);
      text += right_aligned(fits(report, bytes) ? size : "(" + size + ")");
    }
    text += '\n';
  }
  return text;
}

std::string render_limit(const EstimateReport& report) {
  std::string text;
  if (report.memory.limit_bytes) {
    text = report.memory.source + " is " + mebibytes(*report.memory.limit_bytes) +
           " MiB; what is in parentheses does not fit\n";
  } else if (on_gpu(report.memory)) {
    text = "of a rank's GPU, whose memory --memory tells\n";
  }
  if (!report.fix) return text;
  text += "fix: " + common::join(report.fix->changes, ", ") + ": " +
          mebibytes(report.fix->total_bytes) + " MiB:";
  for (const std::string& set : report.fix->sets) text += " --set '" + set + "'";
  return text + "\n";
}

// "memory: 2123.3 MiB of a rank under zero1, of 4096.0 MiB".
std::string explain_memory(const EstimateReport& report) {
  const auto chosen = std::find_if(report.strategies.begin(), report.strategies.end(),
                                   [](const StrategyEstimate& line) { return line.chosen; });
  std::string text = "memory: " + mebibytes(chosen->memory.total()) + " MiB of a rank";
  text += std::string(on_gpu(report.memory) ? "'s GPU" : "") + " under " +
          std::string(common::to_string(chosen->strategy));
  if (!report.memory.limit_bytes) return text;
  text += ", of " + mebibytes(*report.memory.limit_bytes) + " MiB";
  if (fits(report, chosen->memory.total())) return text;
  return text + ": does not fit; lockstep estimate says what would";
}

}  // namespace

EstimateReport estimate_job(const std::string& name, const common::TrainConfig& train,
                            int64_t ranks, const RankMemory& memory) {
  EstimateReport report{.job = name,
                        .ranks = ranks,
                        .precision = std::string(common::to_string(train.precision)),
                        .num_parameters = common::num_parameters(train.model),
                        .num_trained = common::num_trained_parameters(train),
                        .memory = memory,
                        .reason = "",
                        .strategies = {},
                        .rank_counts = {},
                        .fix = {}};
  const common::StrategyChoice choice =
      common::choose_strategy(train, ranks, memory.limit_bytes.value_or(0), memory.device);
  report.reason = choice.reason;
  for (const Strategy strategy : kStrategies) {
    report.strategies.push_back(
        {.strategy = strategy,
         .memory = common::estimate_memory(train, strategy, ranks, memory.device),
         .chosen = strategy == choice.strategy});
  }
  for (const int64_t count : rank_counts_around(train, ranks)) {
    RankCountEstimate line{.ranks = count, .total_bytes = {}};
    for (const Strategy strategy : kStrategies) {
      line.total_bytes.push_back(
          common::estimate_memory(train, strategy, count, memory.device).total());
    }
    report.rank_counts.push_back(std::move(line));
  }
  report.fix = find_memory_fix(train, choice.strategy, ranks, memory);
  return report;
}

std::string render_table(const EstimateReport& report) {
  std::string text = report.job + ": " + std::to_string(report.num_parameters) + " parameters, " +
                     trained_text(report) + std::to_string(report.ranks) + " ranks, " +
                     report.precision + "; MiB of a rank" +
                     (on_gpu(report.memory) ? "'s GPU" : "") + "\n";
  std::string header(8, ' ');
  for (const Column& column : kColumns) header += right_aligned(column.title);
  text += header + right_aligned("total") + "\n";
  for (const StrategyEstimate& line : report.strategies) text += render_line(report, line);
  text += "* " + report.reason + "\n";
  return text + render_rank_counts(report) + render_limit(report);
}

json to_json(const EstimateReport& report) {
  json strategies = json::array();
  for (const StrategyEstimate& line : report.strategies) {
    json object = {{"strategy", common::to_string(line.strategy)},
                   {"chosen", line.chosen},
                   {"fits", fits(report, line.memory.total())},
                   {"totalBytes", line.memory.total()},
                   {"bytesOnNvme", line.memory.nvme}};
    for (const Column& column : kColumns) object[column.key] = line.memory.*column.bytes;
    strategies.push_back(std::move(object));
  }
  json rank_counts = json::array();
  for (const RankCountEstimate& line : report.rank_counts) {
    json object = {{"ranks", line.ranks}};
    for (std::size_t i = 0; i < line.total_bytes.size(); ++i) {
      object[std::string(common::to_string(report.strategies[i].strategy)) + "Bytes"] =
          line.total_bytes[i];
    }
    rank_counts.push_back(std::move(object));
  }
  json fix;
  if (report.fix) {
    fix = {{"changes", report.fix->changes},
           {"set", report.fix->sets},
           {"totalBytes", report.fix->total_bytes}};
  }
  return {{"job", report.job},
          {"ranks", report.ranks},
          {"device", on_gpu(report.memory) ? "gpu" : "cpu"},
          {"precision", report.precision},
          {"parameters", report.num_parameters},
          {"trainedParameters", report.num_trained},
          {"limitBytes", report.memory.limit_bytes ? json(*report.memory.limit_bytes) : json()},
          {"reason", report.reason},
          {"strategies", std::move(strategies)},
          {"byRanks", std::move(rank_counts)},
          {"fix", std::move(fix)}};
}

std::optional<std::string> explain_auto_strategy(const common::TrainConfig& train, int64_t ranks,
                                                 const RankMemory& memory) {
  if (train.parallelism.strategy != Strategy::kAuto) return std::nullopt;
  const common::StrategyChoice choice =
      common::choose_strategy(train, ranks, memory.limit_bytes.value_or(0), memory.device);
  std::string line = "train.parallelism.strategy: auto -> " + choice.reason;
  if (!memory.limit_bytes) {
    line += on_gpu(memory) ? "; the memory of a rank's GPU decides"
                           : "; without resources.limits.memory a rank's free memory decides";
  }
  if (!choice.fits) line += "; the run will refuse to start";
  return line;
}

std::vector<std::string> explain_arithmetic(const api::TrainingJob& job) {
  if (job.spec.train.is_null()) return {};
  const auto complete = common::complete_train(job.spec.train, job.spec.ranks);
  if (!complete) return {};  // model.path is elsewhere, which was said
  const auto decoded = common::decode_with_teacher(*complete);
  if (!decoded || is_elsewhere(decoded->distill)) return {};  // so is the teacher
  const common::TrainConfig& train = *decoded;
  const RankMemory memory = rank_memory(job).value();
  const EstimateReport report = estimate_job(job.meta.name, train, job.spec.ranks, memory);
  std::vector<std::string> lines;
  if (auto strategy = explain_auto_strategy(train, job.spec.ranks, memory)) {
    lines.push_back(std::move(*strategy));
  }
  lines.push_back(explain_batch(train, job.spec.ranks));
  lines.push_back(explain_memory(report));
  return lines;
}

namespace {

struct EstimateArguments {
  ManifestArguments manifest;
  std::string memory;           // what a rank, or its GPU, has; empty: what the job says
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
  if (is_elsewhere(decoded->distill)) {
    std::cerr << "error: " << arguments.manifest.file
              << ": spec.train.distill.teacher: " << decoded->distill.teacher
              << " is not here, so its memory is not known (name the "
              << "folder that `lockstep fetch` prints)\n";
    return kInvalidFile;
  }
  const common::Result<RankMemory> memory = rank_memory(job, arguments.memory);
  if (!memory) {
    std::cerr << "error: " << memory.error().message << " (" << memory.error().hint << ")\n";
    return kUsage;
  }
  const EstimateReport report = estimate_job(job.meta.name, *decoded, job.spec.ranks, *memory);
  std::cout << (arguments.output == "json" ? to_json(report).dump(2) + "\n" : render_table(report));
  return kOk;
}

}  // namespace

void add_estimate(CLI::App& app, int& status) {
  CLI::App& verb =
      *app.add_subcommand("estimate", "print what a rank will hold in memory, and what would fit");
  verb.group(kPrepareGroup);
  EstimateArguments& arguments = run_when_parsed(verb, status, estimate);
  add_manifest_arguments(verb, arguments.manifest);
  verb.add_option("--memory", arguments.memory,
                  "what a rank may hold, or its GPU if the job asks for GPUs, e.g. 80Gi; default "
                  "resources.limits.memory")
      ->type_name("QUANTITY");
  verb.add_option("--output", arguments.output, "text, or json for machines; default text")
      ->check(CLI::IsMember({"text", "json"}));
  verb.footer(
      "Example: lockstep estimate job.yaml --set ranks=8 --set train.batch.microBatchSize=4\n"
      "What the numbers are made of: docs/guides/strategies.md.");
}

}  // namespace lockstep::cli

#include "operator/cli/tune_command.h"

#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <string>
#include <variant>

#include "operator/cli/exit_status.h"
#include "operator/cli/rank_memory.h"
#include "operator/cli/run_nodes.h"
#include "operator/cli/run_summary.h"
#include "operator/cli/runtime_program.h"
#include "operator/cli/stop_descriptor.h"
#include "operator/cli/tune_search.h"
#include "operator/cli/verb.h"
#include "operator/cli/whole_file.h"
#include "operator/local/executor.h"
#include "operator/machine/read_facts.h"
#include "runtime/common/exit_code.h"
#include "runtime/common/teacher_model.h"
#include "runtime/common/text_file.h"

namespace lockstep::cli {
namespace {

namespace fs = std::filesystem;
using common::Error;
using common::Result;
using nlohmann::json;

constexpr int kKilled = 137;  // by the kernel, if nobody else did

struct TuneArguments {
  ManifestArguments manifest;
  std::string output = "text";  // or json
  std::string memory;           // of a rank; empty: the job's, or the machine's
  int steps = 4;
  int trials = 5;
  bool writes = false;
};

// A folder for the outputs of trials, removed with all below at the end.
class TrialFolder {
 public:
  TrialFolder() {
    std::string pattern = (fs::temp_directory_path() / "lockstep-tune-XXXXXX").string();
    if (mkdtemp(pattern.data()) != nullptr) path_ = pattern;
  }
  ~TrialFolder() {
    std::error_code ignored;
    if (!path_.empty()) fs::remove_all(path_, ignored);
  }
  TrialFolder(const TrialFolder&) = delete;
  TrialFolder& operator=(const TrialFolder&) = delete;

  const std::string& path() const { return path_; }  // empty: there is none

 private:
  std::string path_;
};

// As rank_memory(), but trials run here: without a limit, by what this machine has.
Result<RankMemory> memory_here(const TuneArguments& arguments, const api::TrainingJob& job) {
  Result<RankMemory> memory = rank_memory(job, arguments.memory);
  if (!memory || memory->limit_bytes) return memory;
  memory->limit_bytes = machine::usable_memory(machine::read_facts({})) / job.spec.ranks;
  memory->source = "a rank's share of what is free here";
  return memory;
}

// The same job, only short, and silent but for its metrics.
ManifestArguments trial_of(const TuneArguments& arguments, int64_t global_batch,
                           int64_t micro_batch) {
  ManifestArguments trial = arguments.manifest;
  for (const std::string& set :
       {"train.batch={globalBatchSize: " + std::to_string(global_batch) +
            ", microBatchSize: " + std::to_string(micro_batch) + "}",
        "train.steps=" + std::to_string(arguments.steps), std::string("train.epochs="),
        std::string("train.schedule={name: constant}"),
        std::string("train.checkpoint={everySteps: 0, resume: never}"),
        std::string("train.data.validation="), std::string("train.evaluation="),
        std::string("train.export={atEnd: false}"), std::string("train.logging={everySteps: 1}"),
        std::string("failurePolicy={maxRestarts: 0}"), std::string("suspend=false")}) {
    trial.sets.push_back(set);
  }
  return trial;
}

bool is_out_of_memory(const api::FirstFailure& failure) {
  return failure.exit_code == static_cast<int>(common::ExitCode::kOutOfMemory) ||
         failure.exit_code == kKilled;
}

// The most that a line of metrics.jsonl says of rank 0.
int64_t peak_bytes(const std::string& metrics) {
  int64_t peak = 0;
  std::size_t begin = 0;
  while (begin < metrics.size()) {
    const std::size_t end = std::min(metrics.find('\n', begin), metrics.size());
    const json line = json::parse(metrics.substr(begin, end - begin), nullptr, false);
    if (line.is_object()) peak = std::max(peak, line.value("resident_peak_bytes", int64_t{0}));
    begin = end + 1;
  }
  return peak;
}

// What measures a candidate; or an exit status, if no trial can tell anything.
std::variant<TuneTrial, int> try_candidate(const TuneArguments& arguments,
                                           const TuneCandidate& candidate, const TuneReport& report,
                                           const std::string& output, int signal_fd) {
  std::cerr << "trying micro-batch " << candidate.micro_batch << "\n";
  const std::optional<api::Manifest> manifest = load_and_report(
      trial_of(arguments, report.global_batch, candidate.micro_batch), MissingInputs::kRefuse);
  if (!manifest) return kInvalidFile;
  local::ExecutorOptions options;
  options.processes.output = output;
  options.processes.runtime_program = find_runtime();
  options.processes.output_mode = "overwrite";  // which keeps the data as tokens
  options.signal_fd = signal_fd;
  const Result<local::RunReport> run = local::run_job(manifest->job, options);
  if (!run) {
    std::cerr << "error: " << run.error().message << " (" << run.error().hint << ")\n";
    return kFailed;
  }
  TuneTrial trial{.micro_batch = candidate.micro_batch};
  if (run->end == local::RunEnd::kSucceeded) {
    const Result<std::string> metrics = common::read_text_file(output + "/metrics.jsonl");
    const std::optional<RunSummary> summary = summarize_metrics(metrics ? *metrics : "");
    if (!summary) {
      std::cerr << "error: a trial left no metrics\n";
      return kFailed;
    }
    trial.has_run = true;
    trial.measured_bytes = peak_bytes(*metrics) + candidate.snapshot_bytes;
    trial.tokens_per_second = summary->tokens_per_second;
    trial.fits = trial.measured_bytes <= report.memory_bytes;
    return trial;
  }
  const std::optional<api::FirstFailure>& failure = run->status.first_failure;
  if (run->end == local::RunEnd::kFailed && failure && is_out_of_memory(*failure)) return trial;
  if (run->end == local::RunEnd::kFailed) {
    std::cerr << "error: " << run->status.message << "\n";
    if (failure && !failure->hint.empty()) std::cerr << "hint: " << failure->hint << "\n";
  }
  return exit_status_of(run->end);
}

int write_manifest(const TuneArguments& arguments, const TuneTrial& best, int64_t global_batch) {
  const std::string& file = arguments.manifest.file;
  const Result<std::string> text = api::read_config_file(file);
  const Result<std::string> edited =
      text ? with_micro_batch(*text, best.micro_batch, global_batch) : text;
  if (!edited) {
    std::cerr << "error: " << file << ": " << edited.error().message << " (" << edited.error().hint
              << ")\n";
    return kFailed;
  }
  const Result<void> written = write_whole_file(file, *edited, Existing::kReplace);
  if (!written) {
    std::cerr << "error: " << written.error().message << "\n";
    return kFailed;
  }
  std::cerr << "wrote microBatchSize: " << best.micro_batch << " to " << file << "\n";
  return kOk;
}

int search(const TuneArguments& arguments, TuneReport& report) {
  const TrialFolder folder;
  if (folder.path().empty()) {
    std::cerr << "error: no folder for trials in " << fs::temp_directory_path().string()
              << " (set TMPDIR to one that can be written)\n";
    return kFailed;
  }
  const TuneLimits limits{.memory_bytes = report.memory_bytes, .max_trials = arguments.trials};
  const int signal_fd = stop_descriptor();
  while (const auto next = next_trial(report.candidates, report.trials, limits)) {
    const std::variant<TuneTrial, int> end = try_candidate(
        arguments, report.candidates[*next], report, folder.path() + "/output", signal_fd);
    if (const int* const status = std::get_if<int>(&end)) return *status;
    report.trials.push_back(std::get<TuneTrial>(end));
  }
  return kOk;
}

int tune(const TuneArguments& arguments) {
  const std::optional<api::Manifest> manifest =
      load_and_report(arguments.manifest, MissingInputs::kRefuse);
  if (!manifest) return kInvalidFile;
  const api::TrainingJob& job = manifest->job;
  if (job.spec.train.is_null()) {
    std::cerr << "error: " << arguments.manifest.file
              << ": spec.command: nothing is known about the batch of a program of one's own\n";
    return kInvalidFile;
  }
  if (rank_memory(job).value().device == common::RankDevice::kGpu) {
    std::cerr << "error: " << arguments.manifest.file
              << ": spec.resources: the job computes on GPUs, and trials here do not "
                 "(lockstep estimate --memory tells what fits a GPU)\n";
    return kInvalidFile;
  }
  const auto complete = common::complete_train(job.spec.train, job.spec.ranks);
  const Result<RankMemory> limit = memory_here(arguments, job);
  if (!complete || !limit) {
    const Error& error = complete ? limit.error() : complete.error();
    std::cerr << "error: " << error.message << " (" << error.hint << ")\n";
    return complete ? kUsage : kInvalidFile;
  }
  const auto decoded = common::decode_with_teacher(*complete);
  if (!decoded) {
    std::cerr << "error: " << decoded.error().message << " (" << decoded.error().hint << ")\n";
    return kInvalidFile;
  }
  const common::TrainConfig& train = *decoded;
  TuneReport report{.job = job.meta.name,
                    .ranks = job.spec.ranks,
                    .global_batch = train.batch.global_batch_size,
                    .memory_bytes = *limit->limit_bytes,
                    .memory_source = limit->source,
                    .candidates = tune_candidates(train, job.spec.ranks, *limit->limit_bytes),
                    .trials = {}};
  if (const int status = search(arguments, report); status != kOk) return status;
  std::cout << (arguments.output == "json" ? to_json(report).dump(2) + "\n"
                                           : render_tuning(report));
  const std::optional<TuneTrial> best = best_trial(report.trials);
  if (!best) {
    std::cerr << "error: no micro-batch that was tried fits (more memory, more ranks with "
                 "train.parallelism.strategy=zero3, or train.activationCheckpointing=block)\n";
    return kFailed;
  }
  return arguments.writes ? write_manifest(arguments, *best, report.global_batch) : kOk;
}

}  // namespace

void add_tune(CLI::App& app, int& status) {
  CLI::App& verb = *app.add_subcommand(
      "tune", "find the largest micro-batch that fits, by short runs of the job");
  verb.group(kPrepareGroup);
  TuneArguments& arguments = run_when_parsed(verb, status, tune);
  add_manifest_arguments(verb, arguments.manifest);
  verb.add_option(
          "--memory", arguments.memory,
          "what a rank may hold, e.g. 16Gi; default resources.limits.memory, else its share "
          "of what is free here")
      ->type_name("QUANTITY");
  verb.add_option("--steps", arguments.steps, "steps of a trial; default 4")
      ->type_name("N")
      ->check(CLI::Range(2, 1000));
  verb.add_option("--trials", arguments.trials, "trials, at most; default 5")
      ->type_name("N")
      ->check(CLI::Range(1, 100));
  verb.add_flag("--write", arguments.writes, "write the micro-batch into FILE, comments and all");
  verb.add_option("--output", arguments.output, "text, or json for machines; default text")
      ->check(CLI::IsMember({"text", "json"}));
  verb.footer(
      "Example: lockstep tune job.yaml --memory 24Gi --write\n"
      "The global batch stays, so accumulation changes with the micro-batch. Memory is what rank "
      "0\n"
      "held at most, and the copy that checkpoints are written from. Another micro-batch rounds\n"
      "otherwise: losses agree to a few digits, not to the bit. FILE is changed by --write only.");
}

}  // namespace lockstep::cli

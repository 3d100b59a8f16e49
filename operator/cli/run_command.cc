#include "operator/cli/run_command.h"

#include <filesystem>
#include <fstream>
#include <iostream>
#include <sstream>

#include <unistd.h>

#include "operator/api/crd.h"
#include "operator/cli/estimate_command.h"
#include "operator/cli/exit_status.h"
#include "operator/cli/progress_view.h"
#include "operator/cli/run_nodes.h"
#include "operator/cli/run_summary.h"
#include "operator/cli/runtime_program.h"
#include "operator/cli/stop_descriptor.h"
#include "operator/cli/verb.h"
#include "operator/local/executor.h"
#include "operator/local/localize.h"
#include "operator/local/output_lock.h"
#include "operator/plan/pod_group.h"
#include "operator/plan/status.h"
#include "runtime/common/model_folder.h"

namespace lockstep::cli {

namespace fs = std::filesystem;

namespace {

struct RunArguments {
  ManifestArguments manifest;
  std::string output;      // empty: runs/<job>
  bool dry_run = false;    // print the plan, start nothing
  bool resume = false;     // take up a finished output again
  bool overwrite = false;  // start afresh in a used output
  local::NodeFlags nodes;
};

std::string read_text(const fs::path& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

std::string last_lines(const std::string& text, int count) {
  size_t begin = text.size();
  for (int i = 0; i <= count && begin != std::string::npos && begin > 0; ++i) {
    begin = text.rfind('\n', begin - 1);
  }
  return begin == std::string::npos || begin == 0 ? text : text.substr(begin + 1);
}

void print_failure(const local::RunReport& report, const std::string& output) {
  std::cerr << "error: " << report.status.message << "\n";
  if (report.status.first_failure && !report.status.first_failure->hint.empty()) {
    std::cerr << "hint: " << report.status.first_failure->hint << "\n";
  }
  if (report.failed_log.empty()) return;
  if (!fs::exists(report.failed_log)) {
    const fs::path folder = fs::absolute(output).lexically_normal();
    std::cerr << "its log is on " << report.status.first_failure->node
              << ", below the --output there: "
              << fs::path(report.failed_log).lexically_relative(folder).string() << "\n";
    return;
  }
  std::cerr << "last lines of " << report.failed_log << ":\n"
            << last_lines(read_text(report.failed_log), 8);
}

void print_sample(const std::string& runtime, const std::string& model) {
  if (!fs::exists(model) || common::find_tokenizer(model)) return;
  std::cout << "sample\n" << std::flush;
  run_runtime(runtime, {"generate", "--model", model, "--prompt", "The ", "--tokens", "240",
                        "--temperature", "0.8", "--seed", "1"});
  std::cout << "\n";
}

// The command line that goes on from the checkpoint: the same job, never --overwrite.
std::string resume_command(const RunArguments& arguments, const std::string& output) {
  std::string command = "lockstep run " + arguments.manifest.file + " --output " + output;
  for (const std::string& set : arguments.manifest.sets) command += " --set '" + set + "'";
  for (const std::string& input : arguments.manifest.inputs) command += " --input '" + input + "'";
  const local::NodeFlags& nodes = arguments.nodes;
  if (nodes.nodes) command += " --nodes " + std::to_string(*nodes.nodes);
  if (nodes.node_rank) command += " --node-rank " + std::to_string(*nodes.node_rank);
  if (!nodes.master.empty()) command += " --master " + nodes.master;
  return command;
}

//   runtime: empty for a job with a command of its own, whose model lockstep-runtime does not know.
int finish(const local::RunReport& report, const RunArguments& arguments, const std::string& output,
           const std::string& runtime) {
  switch (report.end) {
    case local::RunEnd::kSucceeded:
      break;
    case local::RunEnd::kFailed:
      print_failure(report, output);
      break;
    case local::RunEnd::kKilled:
      std::cerr << "killed; steps after the last checkpoint are lost\n";
      break;
    case local::RunEnd::kSuspended:
      std::cerr << "suspended; go on with: " << resume_command(arguments, output) << "\n";
      break;
    case local::RunEnd::kNodeLost:
      std::cerr << "error: " << report.lost_node
                << " (the same commands on all machines go on from the last checkpoint)\n";
      break;
  }
  if (report.end != local::RunEnd::kSucceeded) return exit_status_of(report.end);
  const std::optional<RunSummary> summary =
      summarize_metrics(read_text(fs::path(output) / "metrics.jsonl"));
  if (summary) std::cout << render_summary(*summary, output);
  if (!runtime.empty()) print_sample(runtime, (fs::path(output) / "model").string());
  return kOk;
}

int print_objects(const api::TrainingJob& job) {
  api::TrainingJob planned = job;
  planned.meta.ns = planned.meta.ns.empty() ? "default" : planned.meta.ns;
  planned.meta.generation = 1;
  const api::Time start{};
  plan::Observation seen;  // of a cluster that has the gang scheduler which the job names
  if (planned.spec.scheduling.gang_scheduler != api::GangScheduler::kAuto) {
    seen.gang_apis = plan::all_gang_apis();
  }
  plan::Plan next = plan::plan(planned, seen, {"RUNTIME-IMAGE"}, start);
  // The first plan only begins the attempt; the second one creates its objects.
  for (int round = 0; round < 3 && next.actions.empty(); ++round) {
    planned.status = next.status;
    next = plan::plan(planned, seen, {"RUNTIME-IMAGE"}, start);
  }
  for (const plan::Action& action : next.actions) {
    std::visit(
        [](const auto& one) {
          if constexpr (requires { one.body; }) std::cout << "---\n" << api::to_yaml(one.body);
        },
        action);
  }
  return kOk;
}

std::string output_of(const RunArguments& arguments, const api::TrainingJob& job) {
  return arguments.output.empty() ? local::default_output(job) : arguments.output;
}

local::ProcessClusterOptions process_options(const RunArguments& arguments,
                                             const api::TrainingJob& job,
                                             const local::NodePlace& place) {
  local::ProcessClusterOptions options;
  options.place = place;
  options.output = fs::absolute(output_of(arguments, job)).lexically_normal().string();
  options.runtime_program = find_runtime();
  if (arguments.resume) options.output_mode = "resume";
  if (arguments.overwrite) options.output_mode = "overwrite";
  return options;
}

// Runs the job: alone, or on the first of several nodes.
int lead(const RunArguments& arguments, const NodeRun& nodes, local::ExecutorOptions options) {
  const api::TrainingJob& job = nodes.manifest.job;
  const std::string output = output_of(arguments, job);
  const common::Result<std::unique_ptr<local::OutputLock>> lock = local::OutputLock::take(output);
  if (!lock) {
    std::cerr << "error: " << lock.error().message << " (" << lock.error().hint << ")\n";
    return kFailed;
  }
  int status = kFailed;
  std::optional<std::vector<local::NodeLink>> others = gather_nodes(nodes, status);
  if (!others) return status;
  ProgressView view(std::cerr, isatty(STDERR_FILENO) == 1);
  options.on_progress = [&view](const common::JobProgress& progress) { view.show(progress); };
  options.on_event = [&view](const plan::Event& event) {
    if (event.reason != "Failed") view.show(event);  // told at the end, with hint and log
  };
  const common::Result<local::RunReport> report = local::run_job(job, options, *std::move(others));
  view.finish();
  if (!report) {
    std::cerr << "error: " << report.error().message << " (" << report.error().hint << ")\n";
    return kFailed;
  }
  const bool is_ours = job.spec.command.empty();
  return finish(*report, arguments, output, is_ours ? options.processes.runtime_program : "");
}

// Results go to standard output, talk to standard error.
int run(const RunArguments& arguments) {
  if (arguments.resume && arguments.overwrite) {
    std::cerr << "error: --resume and --overwrite exclude each other\n";
    return kUsage;
  }
  const std::optional<api::Manifest> manifest = load_and_report(
      arguments.manifest, arguments.dry_run ? MissingInputs::kWarn : MissingInputs::kRefuse);
  if (!manifest) return kInvalidFile;
  for (const std::string& line : manifest->resolved) std::cerr << line << "\n";
  const std::optional<local::NodePlace> place = find_place(arguments.nodes, manifest->job);
  if (!place) return kUsage;
  if (arguments.dry_run) {
    print_place(*place, manifest->job.spec.ranks);
    return print_objects(manifest->job);
  }
  for (const std::string& path : local::without_effect_here(manifest->job.spec.pod_template)) {
    std::cerr << "warning: " << path << " has no effect on processes of this machine\n";
  }

  local::ExecutorOptions options;
  options.processes = process_options(arguments, manifest->job, *place);
  options.signal_fd = stop_descriptor();
  const NodeRun nodes{*manifest, arguments.manifest.inputs, options.processes, options.signal_fd};
  if (!place->is_first()) return follow_first_node(nodes);
  return lead(arguments, nodes, options);  // `nodes` refers to what is in it
}

int print_plan(const ManifestArguments& arguments) {
  const std::optional<api::Manifest> manifest = load_and_report(arguments, MissingInputs::kWarn);
  if (!manifest) return kInvalidFile;
  for (const std::string& line : manifest->resolved) std::cout << "# " << line << "\n";
  for (const std::string& line : explain_arithmetic(manifest->job)) {
    std::cout << "# " << line << "\n";
  }
  return print_objects(manifest->job);
}

}  // namespace

void add_run(CLI::App& app, int& status) {
  CLI::App& verb = *app.add_subcommand("run", "run a job here, with processes in place of pods");
  verb.group(kTrainGroup);
  RunArguments& arguments = run_when_parsed(verb, status, run);
  add_manifest_arguments(verb, arguments.manifest);
  verb.add_option("--output", arguments.output,
                  "stands for the manifest's output; default runs/JOB")
      ->type_name("FOLDER");
  add_node_flags(verb, arguments.nodes);
  verb.add_flag("--dry-run", arguments.dry_run, "print what would be created, start nothing");
  verb.add_flag("--resume", arguments.resume, "take up a finished output again");
  verb.add_flag("--overwrite", arguments.overwrite, "start afresh in a used output");
  verb.footer(
      "Example: lockstep run job.yaml --set train.steps=50 --input corpus=$HOME/books\n"
      "Exit status: 0 done; 1 the job failed; 3 the manifest is wrong; 130 stopped by Ctrl-C,\n"
      "behind a checkpoint: the same command goes on from it. On several machines: 72 they did "
      "not\n"
      "find each other; 83 one is gone. torchrun, srun and mpirun say themselves which node this "
      "is.");
}

void add_plan(CLI::App& app, int& status) {
  CLI::App& verb = *app.add_subcommand("plan", "print the objects that the operator would create");
  verb.group(kPrepareGroup);
  add_manifest_arguments(verb, run_when_parsed(verb, status, print_plan));
  verb.footer("Example: lockstep plan job.yaml --set ranks=8. Nothing is created.");
}

}  // namespace lockstep::cli

#include "operator/cli/report_command.h"

#include <chrono>
#include <filesystem>
#include <iostream>
#include <string>
#include <utility>
#include <vector>

#include "operator/cli/exit_status.h"
#include "operator/cli/runtime_program.h"
#include "operator/cli/verb.h"
#include "operator/cli/whole_file.h"
#include "operator/kube/client_config.h"
#include "operator/kube/subprocess.h"
#include "operator/runs/report_page.h"
#include "operator/runs/run_files.h"

namespace lockstep::cli {
namespace {

namespace fs = std::filesystem;

struct ReportArguments {
  std::string run;
  std::string output;  // empty: RUN/report.html; "-": standard output
  std::vector<std::string> prompts;
};

constexpr std::chrono::seconds kSamplePatience{600};  // a large model takes long to load
constexpr const char* kSampleTokens = "64";

// The prompt with what the model goes on with; what hinders it is told by the runtime itself.
common::Result<std::string> sample_of(const std::string& model, const std::string& prompt) {
  const kube::Subprocess generate{.argv = {find_runtime(), "generate", "--model", model, "--prompt",
                                           prompt, "--tokens", kSampleTokens, "--temperature", "0"},
                                  .env = {},
                                  .timeout = kSamplePatience};
  const common::Result<kube::SubprocessEnd> end = kube::run_subprocess(generate);
  const std::string how = !end ? end.error().message : end->how;
  if (how.empty()) return end->output.substr(0, end->output.find_last_not_of('\n') + 1);
  const std::string said = end ? kube::trim(end->errors) : "";
  return common::Error{
      common::ErrorCode::kUnavailable,
      "no sample of " + model + ": lockstep-runtime " + how + (said.empty() ? "" : ": " + said),
      "lockstep generate --model " + model + " --prompt TEXT"};
}

int report(const ReportArguments& arguments) {
  const common::Result<runs::RunFiles> files = runs::read_run_files(arguments.run);
  if (!files) {
    std::cerr << "error: " << files.error().message << " (" << files.error().hint << ")\n";
    return kInvalidFile;
  }
  runs::RunRecord run = runs::parse_run(*files);
  for (const std::string& prompt : arguments.prompts) {
    common::Result<std::string> sample =
        sample_of((fs::path(arguments.run) / "model").string(), prompt);
    if (!sample) {
      std::cerr << "error: " << sample.error().message << " (" << sample.error().hint << ")\n";
      return kFailed;
    }
    run.samples.push_back(std::move(sample).value());
  }
  for (const std::string& trouble : run.troubles) std::cerr << "warning: " << trouble << "\n";
  const std::string page = runs::report_page(run);
  if (arguments.output == "-") {
    std::cout << page;
    return kOk;
  }
  const std::string path = arguments.output.empty()
                               ? (fs::path(arguments.run) / "report.html").string()
                               : arguments.output;
  const common::Result<void> written = write_whole_file(path, page, Existing::kReplace);
  if (!written) {
    std::cerr << "error: " << written.error().message << " (name another file with --output)\n";
    return kFailed;
  }
  std::cout << path << "\n";
  return kOk;
}

}  // namespace

void add_report(CLI::App& app, int& status) {
  CLI::App& verb = *app.add_subcommand("report", "write a run as one HTML page to look at");
  verb.group(kLookGroup);
  ReportArguments& arguments = run_when_parsed(verb, status, report);
  verb.add_option("run", arguments.run, "the output folder of a run")
      ->required()
      ->type_name("FOLDER");
  verb.add_option("--output", arguments.output,
                  "the page's file; default RUN/report.html, - is standard output")
      ->type_name("FILE");
  verb.add_option("--prompt", arguments.prompts,
                  "a text that the run's model goes on with on the page; may be repeated")
      ->type_name("TEXT")
      ->allow_extra_args(false);
  verb.footer(
      "The page needs no other file and asks for none; a run that failed, is at work or has\n"
      "lost files is shown as far as it tells.");
}

}  // namespace lockstep::cli

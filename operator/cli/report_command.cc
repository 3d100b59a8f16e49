#include "operator/cli/report_command.h"

#include <filesystem>
#include <iostream>

#include "operator/cli/exit_status.h"
#include "operator/cli/verb.h"
#include "operator/cli/whole_file.h"
#include "operator/runs/report_page.h"
#include "operator/runs/run_files.h"

namespace lockstep::cli {
namespace {

namespace fs = std::filesystem;

struct ReportArguments {
  std::string run;
  std::string output;  // empty: RUN/report.html; "-": standard output
};

int report(const ReportArguments& arguments) {
  const common::Result<runs::RunFiles> files = runs::read_run_files(arguments.run);
  if (!files) {
    std::cerr << "error: " << files.error().message << " (" << files.error().hint << ")\n";
    return kInvalidFile;
  }
  const runs::RunRecord run = runs::parse_run(*files);
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
  verb.footer(
      "The page needs no other file and asks for none; a run that failed, is at work or has\n"
      "lost files is shown as far as it tells.");
}

}  // namespace lockstep::cli

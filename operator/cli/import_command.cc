#include "operator/cli/import_command.h"

#include <filesystem>
#include <iostream>

#include "operator/api/manifest.h"
#include "operator/cli/exit_status.h"
#include "operator/cli/verb.h"
#include "operator/convert/import_source.h"
#include "operator/convert/report.h"

namespace lockstep::cli {

namespace {

struct ImportArguments {
  std::vector<std::string> source;  // a file, or the words of a launcher's command line
  std::string from = "auto";        // convert::source_kinds()
  std::vector<std::string> sets;    // --set path=value
  std::string output = "yaml";      // or json
};

void print_error(const common::Error& error) {
  std::cerr << "error: " << error.message;
  if (!error.hint.empty()) std::cerr << " (" << error.hint << ")";
  std::cerr << "\n";
}

convert::NamedFiles read_named_files(const std::vector<std::string>& words) {
  convert::NamedFiles files;
  for (const std::string& path : convert::files_of_command_line(words)) {
    files.emplace(path, api::read_config_file(path));
  }
  return files;
}

// Prints the manifest to standard output (with --output json one object with the lists, too), what
// became of every key to standard error. A broken configuration leaves nothing on standard output.
int import_config(const ImportArguments& arguments) {
  const bool is_file = arguments.source.size() == 1;
  if (!is_file && arguments.from != "auto") {
    std::cerr << "error: --from is of a file; a command line names its tool itself\n";
    return kUsage;
  }
  std::string name = "command line";
  convert::Imported imported;
  if (is_file) {
    const std::string& file = arguments.source.front();
    const common::Result<std::string> text = api::read_config_file(file);
    if (!text) {
      print_error(text.error());
      return kInvalidFile;
    }
    name = std::filesystem::path(file).filename().string();
    imported = convert::import_text(
        *text, {.file_name = name, .from = arguments.from, .sets = arguments.sets});
  } else {
    imported =
        convert::import_command_line(arguments.source, read_named_files(arguments.source),
                                     {.file_name = name, .from = "auto", .sets = arguments.sets});
  }
  const convert::Conversion& conversion = imported.conversion;
  if (imported.manifest.empty()) {
    for (const common::Problem& problem : conversion.problems) {
      std::cerr << "error: "
                << common::to_string(problem, is_file ? arguments.source.front() : name) << "\n";
    }
    return kInvalidFile;
  }
  std::cerr << convert::render_report(conversion, name);
  std::cout << (arguments.output == "json" ? convert::to_json(conversion, name).dump(2) + "\n"
                                           : imported.manifest);
  if (!convert::has_refusals(conversion)) return kOk;
  std::cerr << "error: the manifest does without what was refused\n";
  return kPartlyRefused;
}

}  // namespace

void add_import(CLI::App& app, int& status) {
  CLI::App& verb = *app.add_subcommand(
      "import", "make a manifest of another tool's configuration or command line");
  verb.group(kPrepareGroup);
  ImportArguments& arguments = run_when_parsed(verb, status, import_config);
  verb.add_option("source", arguments.source,
                  "a file, e.g. ds_config.json; or behind -- a command line: torchrun, accelerate "
                  "launch, deepspeed, aitraining")
      ->required()
      ->type_name("FILE");
  verb.add_option("--from", arguments.from, "whose it is, unless what is in it tells")
      ->check(CLI::IsMember(convert::source_kinds()));
  add_sets(verb, arguments.sets, "set what the configuration leaves open; may be repeated");
  verb.add_option("--output", arguments.output, "json: manifest and lists, for machines")
      ->check(CLI::IsMember({"yaml", "json"}));
  verb.footer(
      "The manifest goes to standard output, what became of every key to standard error.\n"
      "Exit status: 0 all mapped or changed; 4 some refused, the manifest is without them;\n"
      "3 the configuration is broken, no manifest.");
}

}  // namespace lockstep::cli

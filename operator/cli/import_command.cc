#include "operator/cli/import_command.h"

#include <filesystem>
#include <iostream>

#include "operator/api/manifest.h"
#include "operator/cli/exit_status.h"
#include "operator/convert/import_source.h"
#include "operator/convert/report.h"

namespace lockstep::cli {

int import_config(const ImportArguments& arguments) {
  const common::Result<std::string> text = api::read_config_file(arguments.file);
  if (!text) {
    std::cerr << "error: " << text.error().message;
    if (!text.error().hint.empty()) std::cerr << " (" << text.error().hint << ")";
    std::cerr << "\n";
    return kInvalidFile;
  }
  const std::string name = std::filesystem::path(arguments.file).filename().string();
  const convert::Imported imported = convert::import_text(
      *text, {.file_name = name, .from = arguments.from, .sets = arguments.sets});
  const convert::Conversion& conversion = imported.conversion;
  if (imported.manifest.empty()) {
    for (const common::Problem& problem : conversion.problems) {
      std::cerr << "error: " << common::to_string(problem, arguments.file) << "\n";
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

}  // namespace lockstep::cli

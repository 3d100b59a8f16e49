// lockstep import: another tool's configuration, or its command line, as a manifest.
#pragma once

#include <string>
#include <vector>

namespace lockstep::cli {

struct ImportArguments {
  std::vector<std::string> source;  // a file, or the words of a launcher's command line
  std::string from = "auto";        // convert::source_kinds()
  std::vector<std::string> sets;    // --set path=value
  std::string output = "yaml";      // or json
};

// Prints the manifest to standard output (with --output json one object with the lists, too), what
// became of every key to standard error. Returns an exit status: kOk, kPartlyRefused, kInvalidFile
// (then nothing is on standard output), kUsage.
int import_config(const ImportArguments& arguments);

}  // namespace lockstep::cli

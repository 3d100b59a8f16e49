// From the text of another tool's file to the text of a TrainingJob.
#pragma once

#include <string>
#include <vector>

#include "operator/convert/conversion.h"
#include "operator/convert/launch_line.h"
#include "runtime/common/document.h"

namespace lockstep::convert {

struct ImportOptions {
  std::string file_name;          // names the job, and the source in messages
  std::string from = "auto";      // one of source_kinds(), or "auto": by what is in the file
  std::vector<std::string> sets;  // "path=value", as of lockstep run
};

struct Imported {  // NOLINT(bugprone-exception-escape): json moves without throwing
  Conversion conversion;
  std::string manifest;  // empty if conversion.problems has errors
};

// Names of the sources that there are: "deepspeed", ...
const std::vector<std::string>& source_kinds();

// Reads `text`, converts it, fills in what it lacks, and holds the manifest against the same check
// as lockstep validate: what that finds is in conversion.problems, too. Pure; never throws.
Imported import_text(const std::string& text, const ImportOptions& options);

// The same of a launcher's command line (launch_line.h): {"torchrun", "--nproc-per-node=4", ...}.
//   files: what files_of_command_line() names, read.
// options.file_name and options.from do not count.
Imported import_command_line(const std::vector<std::string>& words, const NamedFiles& files,
                             const ImportOptions& options);

}  // namespace lockstep::convert

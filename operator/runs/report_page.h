// A run as a page to look at.
#pragma once

#include <string>

#include "operator/runs/run_record.h"

namespace lockstep::runs {

// One self-contained HTML page: no script, and a policy that forbids every request. It follows the
// reader's light or dark scheme. Everything that came from the run is escaped. Pure.
std::string report_page(const RunRecord& run);

// What a person would do now, as a command line or a sentence.
std::string next_command(const RunRecord& run);

}  // namespace lockstep::runs

// All verbs of the command line.
#pragma once

namespace CLI {
class App;
}

namespace lockstep::cli {

// Adds the verbs in the order in which --help lists them. `app` has its version flag by then; it
// and `status`, where a verb leaves its exit status, outlive the parsing.
void add_verbs(CLI::App& app, int& status);

}  // namespace lockstep::cli

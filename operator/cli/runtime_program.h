// Finds and runs lockstep-runtime for verbs that touch tensors.
#pragma once

#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace lockstep::cli {

// $LOCKSTEP_RUNTIME, else lockstep-runtime beside this executable, else the bare name (looked up in
// PATH).
std::string find_runtime();

// Runs `runtime VERB ARGS...` with our standard streams; returns its exit status (127: not found).
int run_runtime(const std::string& runtime, const std::vector<std::string>& arguments);

// Verbs that touch tensors or tokens: the runtime reads their arguments, and --help.
void add_runtime_verbs(CLI::App& app, int& status);

}  // namespace lockstep::cli

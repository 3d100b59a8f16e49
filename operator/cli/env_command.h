// lockstep env: what this machine is like, to paste into a report.
#pragma once

namespace CLI {
class App;
}

namespace lockstep::cli {

// Asks `app` for its version.
void add_env(CLI::App& app, int& status);

}  // namespace lockstep::cli

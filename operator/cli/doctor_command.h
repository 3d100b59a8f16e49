// lockstep doctor: what is wrong with this machine, or with a cluster, and one command for each.
#pragma once

namespace CLI {
class App;
}

namespace lockstep::cli {

// Asks `app` for its version.
void add_doctor(CLI::App& app, int& status);

}  // namespace lockstep::cli

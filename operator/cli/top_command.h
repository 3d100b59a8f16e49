// lockstep top: runs of this machine and jobs of a cluster as they go.
#pragma once

namespace CLI {
class App;
}

namespace lockstep::cli {

void add_top(CLI::App& app, int& status);

}  // namespace lockstep::cli

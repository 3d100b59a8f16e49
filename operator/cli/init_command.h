// lockstep init: asks a few questions, and writes a manifest that lockstep validate accepts.
#pragma once

namespace CLI {
class App;
}

namespace lockstep::cli {

void add_init(CLI::App& app, int& status);

}  // namespace lockstep::cli

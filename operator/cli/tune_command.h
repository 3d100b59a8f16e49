// `lockstep tune`: the largest micro-batch that fits, found by short runs of the job itself.
#pragma once

namespace CLI {
class App;
}

namespace lockstep::cli {

void add_tune(CLI::App& app, int& status);

}  // namespace lockstep::cli

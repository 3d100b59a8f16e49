// `lockstep run`: the job of a manifest on this machine; `lockstep plan`: what it would be made of.
#pragma once

namespace CLI {
class App;
}

namespace lockstep::cli {

void add_run(CLI::App& app, int& status);
// The objects that the first plan would create, as YAML documents.
void add_plan(CLI::App& app, int& status);

}  // namespace lockstep::cli

// lockstep import: another tool's configuration, or its command line, as a manifest.
#pragma once

namespace CLI {
class App;
}

namespace lockstep::cli {

void add_import(CLI::App& app, int& status);

}  // namespace lockstep::cli

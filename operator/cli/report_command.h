// lockstep report: a run's folder as one HTML page.
#pragma once

namespace CLI {
class App;
}

namespace lockstep::cli {

void add_report(CLI::App& app, int& status);

}  // namespace lockstep::cli

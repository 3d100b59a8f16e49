// lockstep compare: what two runs have in common, down to the bits.
#pragma once

namespace CLI {
class App;
}

namespace lockstep::cli {

void add_compare(CLI::App& app, int& status);

}  // namespace lockstep::cli

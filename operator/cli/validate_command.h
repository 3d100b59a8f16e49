// lockstep validate: every problem of a manifest at once, and what was decided for the user.
#pragma once

namespace CLI {
class App;
}

namespace lockstep::cli {

void add_validate(CLI::App& app, int& status);

}  // namespace lockstep::cli

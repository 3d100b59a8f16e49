// `lockstep fetch`: fills the cache of this machine with what is on the Hugging Face hub.
#pragma once

namespace CLI {
class App;
}

namespace lockstep::cli {

void add_fetch(CLI::App& app, int& status);

}  // namespace lockstep::cli

// Arguments and environment of a program, as execve() wants them.
#pragma once

#include <map>
#include <string>
#include <vector>

namespace lockstep::common {

// "NAME=value" of our own environment, with `ours` in place of their namesakes.
// Not to be called while another thread changes the environment.
std::vector<std::string> merged_environment(const std::map<std::string, std::string>& ours);

// Pointers to the strings and a null pointer behind them. `strings` outlives them; nobody writes
// through them.
std::vector<char*> exec_pointers(const std::vector<std::string>& strings);

}  // namespace lockstep::common

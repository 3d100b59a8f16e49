// Completion scripts for shells, made of the command line itself.
#pragma once

#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace lockstep::cli {

// A flag or option of a verb.
struct FlagWords {
  std::string name;  // "--set"
  std::string what;  // the help's line
  bool takes_value = false;
  std::vector<std::string> choices;  // of the value; empty: any
  bool operator==(const FlagWords&) const = default;
};

struct VerbWords {
  std::string name, what;
  std::vector<FlagWords> flags;      // long names only, in the order of --help
  std::vector<std::string> choices;  // of its first word, if that is one of a set
  bool operator==(const VerbWords&) const = default;
};

// The verbs of `app` in the order in which they were added.
std::vector<VerbWords> words_of(const CLI::App& app);

// A script for one of shells(). Where it knows no words it leaves completion to the shell: files.
std::string completion_script(const std::string& shell, const std::vector<VerbWords>& verbs);
const std::vector<std::string>& shells();

// lockstep completion SHELL. Prints the script of `app` as it is when the verb runs.
void add_completion(CLI::App& app, int& status);

}  // namespace lockstep::cli

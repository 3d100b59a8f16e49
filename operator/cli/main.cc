// lockstep: the command line.
#include <algorithm>
#include <cstdio>
#include <exception>
#include <iostream>
#include <optional>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>

#include "operator/cli/cluster_verbs.h"
#include "operator/cli/exit_status.h"
#include "operator/cli/verbs.h"
#include "runtime/common/suggest.h"

namespace lockstep::cli {
namespace {

int complain_of_verb(CLI::App& app, const std::string& verb) {
  std::vector<std::string> verbs;
  for (const CLI::App* known : app.get_subcommands([](const CLI::App*) { return true; })) {
    verbs.push_back(known->get_name());
  }
  std::cerr << "error: there is no verb '" << verb << "'; ";
  const std::optional<std::string> meant = common::closest(verb, verbs);
  if (meant) std::cerr << "did you mean '" << *meant << "'? ";
  std::cerr << "see lockstep --help\n";
  return kUsage;
}

// The flag of `verb` that a word on the command line, which it does not know, may have meant.
std::optional<std::string> meant_flag(const CLI::App& verb, int argc, char** argv) {
  std::vector<std::string> flags;
  for (const CLI::Option* option : verb.get_options()) {
    for (const std::string& name : option->get_lnames()) flags.push_back("--" + name);
  }
  for (int i = 2; i < argc; ++i) {
    const std::string word = argv[i];
    const std::string flag = word.substr(0, word.find('='));
    if (!flag.starts_with("--") || std::find(flags.begin(), flags.end(), flag) != flags.end()) {
      continue;
    }
    return common::closest(flag, flags);
  }
  return std::nullopt;
}

int complain_of_usage(const CLI::App& verb, const CLI::ParseError& error, int argc, char** argv) {
  std::string message = error.what();
  while (message.ends_with('\n') || message.ends_with('.')) message.pop_back();
  std::cerr << "error: " << message << "; ";
  const std::optional<std::string> meant = meant_flag(verb, argc, argv);
  if (meant) std::cerr << "did you mean " << *meant << "? ";
  std::cerr << "see lockstep " << verb.get_name() << " --help\n";
  return kUsage;
}

int run_verb(int argc, char** argv) {
  CLI::App app("Trains language models in step across any number of processes.",
               command_name(argv[0]));
  app.set_version_flag("--version", LOCKSTEP_VERSION);
  app.require_subcommand(1);
  app.get_formatter()->column_width(16);
  int status = kOk;
  add_verbs(app, status);
  if (argc < 2) {
    std::cerr << app.help();
    return kUsage;
  }
  const std::string verb = argv[1];
  const auto is_it = [&verb](const CLI::App* known) { return known->get_name() == verb; };
  const std::vector<CLI::App*> named = app.get_subcommands(is_it);
  if (!verb.starts_with('-') && named.empty()) return complain_of_verb(app, verb);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    const bool is_wrong = error.get_exit_code() != 0;  // --help and --version are thrown, too
    if (is_wrong && !named.empty()) return complain_of_usage(*named.front(), error, argc, argv);
    return app.exit(error) == 0 ? kOk : kUsage;
  }
  return status;
}

}  // namespace
}  // namespace lockstep::cli

int main(int argc, char** argv) {
  try {
    return lockstep::cli::run_verb(argc, argv);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "error: %s\n", error.what());
    return lockstep::cli::kFailed;
  }
}

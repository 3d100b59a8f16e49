#include "operator/cli/completion.h"

#include <iostream>
#include <sstream>

#include "operator/cli/exit_status.h"
#include "operator/cli/verb.h"

namespace lockstep::cli {
namespace {

// "TEXT:{text,json}" -> text, json: CLI11 tells an option's choices nowhere else.
std::vector<std::string> choices_in(const std::string& type) {
  const std::size_t begin = type.find('{');
  const std::size_t end = type.find('}', begin);
  std::vector<std::string> choices;
  if (end == std::string::npos) return choices;
  std::istringstream list(type.substr(begin + 1, end - begin - 1));
  for (std::string choice; std::getline(list, choice, ',');) choices.push_back(choice);
  return choices;
}

std::string joined(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) text.append(text.empty() ? "" : " ").append(word);
  return text;
}

// In single quotes, as all three shells read them; fish knows \' inside, bash and zsh do not.
std::string in_quotes(const std::string& text, bool is_fish = false) {
  std::string out = "'";
  for (const char c : text) {
    if (c == '\'') {
      out += is_fish ? "\\'" : "'\\''";
    } else if (c == '\\' && is_fish) {
      out += "\\\\";
    } else {
      out += c;
    }
  }
  return out + "'";
}

std::string bash_script(const std::vector<VerbWords>& verbs) {
  std::string names, values, flags;
  for (const VerbWords& verb : verbs) {
    names.append(names.empty() ? "" : " ").append(verb.name);
    std::vector<std::string> all;
    for (const FlagWords& flag : verb.flags) {
      all.push_back(flag.name);
      if (!flag.takes_value) continue;
      values += "    " + verb.name + ":" + flag.name +
                ") words=" + in_quotes(joined(flag.choices)) + " ;;\n";
    }
    flags += "    " + verb.name + ":-*) words=" + in_quotes(joined(all)) + " ;;\n";
    if (!verb.choices.empty()) {
      flags += "    " + verb.name + ":*) words=" + in_quotes(joined(verb.choices)) + " ;;\n";
    }
  }
  return "# bash completion of lockstep; load it with: source <(lockstep completion bash)\n"
         "_lockstep() {\n"
         "  local cur=${COMP_WORDS[COMP_CWORD]} words=\n"
         "  if [ \"$COMP_CWORD\" -eq 1 ]; then\n"
         "    words=" +
         in_quotes(names + " --help --version") +
         "\n"
         "  else case \"${COMP_WORDS[1]}:${COMP_WORDS[COMP_CWORD-1]}\" in\n" +
         values + "    *) case \"${COMP_WORDS[1]}:$cur\" in\n" + flags +
         "    esac ;;\n"
         "  esac; fi\n"
         "  mapfile -t COMPREPLY < <(compgen -W \"$words\" -- \"$cur\")\n"
         "}\n"
         "complete -o default -F _lockstep lockstep\n";
}

// What _arguments and _describe read as separators.
std::string zsh_text(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if (c == ':' || c == '[' || c == ']' || c == '\\') out += '\\';
    out += c;
  }
  return out;
}

std::string zsh_script(const std::vector<VerbWords>& verbs) {
  std::string names, cases;
  for (const VerbWords& verb : verbs) {
    names += "    " + in_quotes(verb.name + ":" + zsh_text(verb.what)) + "\n";
    cases += "    " + verb.name + ") _arguments";
    for (const FlagWords& flag : verb.flags) {
      std::string spec = "*" + flag.name + "[" + zsh_text(flag.what) + "]";
      if (flag.takes_value) {
        spec += ":value:";
        spec += flag.choices.empty() ? "_files" : "(" + joined(flag.choices) + ")";
      }
      cases += " " + in_quotes(spec);
    }
    cases += verb.choices.empty()
                 ? " '*:file:_files' ;;\n"
                 : " " + in_quotes("1:word:(" + joined(verb.choices) + ")") + " ;;\n";
  }
  return "#compdef lockstep\n"
         "# zsh completion of lockstep; load it with: source <(lockstep completion zsh)\n"
         "_lockstep() {\n"
         "  local -a verbs=(\n" +
         names +
         "  )\n"
         "  if (( CURRENT == 2 )); then _describe verb verbs; return; fi\n"
         "  shift words; (( CURRENT -= 1 ))\n"
         "  case $words[1] in\n" +
         cases +
         "  esac\n"
         "}\n"
         "compdef _lockstep lockstep\n";
}

std::string fish_script(const std::vector<VerbWords>& verbs) {
  std::string text =
      "# fish completion of lockstep; load it with: lockstep completion fish | source\n";
  for (const VerbWords& verb : verbs) {
    text += "complete -c lockstep -f -n __fish_use_subcommand -a " + verb.name + " -d " +
            in_quotes(verb.what, true) + "\n";
    const std::string seen =
        "complete -c lockstep -n '__fish_seen_subcommand_from " + verb.name + "'";
    for (const FlagWords& flag : verb.flags) {
      text += seen + " -l " + flag.name.substr(2) + " -d " + in_quotes(flag.what, true);
      if (flag.takes_value) text += " -r";
      if (!flag.choices.empty()) text += " -f -a " + in_quotes(joined(flag.choices), true);
      text += '\n';
    }
    if (!verb.choices.empty())
      text += seen + " -f -a " + in_quotes(joined(verb.choices), true) + "\n";
  }
  return text;
}

}  // namespace

std::vector<VerbWords> words_of(const CLI::App& app) {
  std::vector<VerbWords> verbs;
  for (const CLI::App* verb : app.get_subcommands([](const CLI::App*) { return true; })) {
    VerbWords words{.name = verb->get_name(), .what = verb->get_description()};
    for (const CLI::Option* option : verb->get_options()) {
      const std::vector<std::string> choices = choices_in(option->get_type_name());
      if (option->get_positional() && words.choices.empty()) words.choices = choices;
      for (const std::string& name : option->get_lnames()) {
        words.flags.push_back({.name = "--" + name,
                               .what = option->get_description(),
                               .takes_value = option->get_items_expected_max() > 0,
                               .choices = choices});
      }
    }
    verbs.push_back(std::move(words));
  }
  return verbs;
}

const std::vector<std::string>& shells() {
  static const std::vector<std::string> shells = {"bash", "zsh", "fish"};
  return shells;
}

std::string completion_script(const std::string& shell, const std::vector<VerbWords>& verbs) {
  if (shell == "fish") return fish_script(verbs);
  return shell == "zsh" ? zsh_script(verbs) : bash_script(verbs);
}

void add_completion(CLI::App& app, int& status) {
  CLI::App& verb = *app.add_subcommand("completion", "print a script that completes this command");
  verb.group(kMachineGroup);
  const auto shell = std::make_shared<std::string>();
  verb.add_option("shell", *shell, "which shell reads it")
      ->required()
      ->check(CLI::IsMember(shells()));
  verb.footer("For bash: source <(lockstep completion bash)");
  verb.callback([&app, &status, shell] {
    std::cout << completion_script(*shell, words_of(app));
    status = kOk;
  });
}

}  // namespace lockstep::cli

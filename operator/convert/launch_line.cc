#include "operator/convert/launch_line.h"

#include <algorithm>
#include <set>
#include <utility>

#include "operator/api/manifest.h"
#include "operator/convert/aitraining.h"
#include "operator/convert/flags.h"
#include "operator/convert/host_file.h"
#include "operator/convert/launch_flags.h"
#include "operator/convert/machines.h"
#include "operator/convert/trackers.h"
#include "runtime/common/env_names.h"

namespace lockstep::convert {
namespace {

using nlohmann::json;
using Words = std::vector<std::string>;

Words from(const Words& words, size_t begin) {
  return {words.begin() + static_cast<std::ptrdiff_t>(std::min(begin, words.size())), words.end()};
}

std::string file_name_of(const std::string& path) {
  return path.substr(path.find_last_of('/') + 1);  // npos + 1 = 0: all of it
}

// A flag as it was written, but for its underscores: "-H", "--nproc_per_node".
std::string as_flag(const std::string& name) {
  return (name.size() == 1 ? "-" : "--") + name;
}

bool is_assignment(const std::string& word) {
  const size_t equals = word.find('=');
  return equals != std::string::npos && equals > 0 && !word.starts_with('-') &&
         word.find('/') > equals;
}

// Which launcher begins at the front of `words`, and how many words its name has.
struct Launcher {
  const char* name = nullptr;
  size_t num_words = 0;
};

Launcher launcher_of(const Words& words) {
  const auto word = [&words](size_t i) { return i < words.size() ? file_name_of(words[i]) : ""; };
  if (word(0) == "torchrun") return {"torchrun", 1};
  if (word(0) == "deepspeed") return {"deepspeed", 1};
  if (word(0) == "accelerate" && word(1) == "launch") return {"accelerate launch", 2};
  if (word(0) == "aitraining" || word(0) == "autotrain") return {"aitraining", 1};
  if (word(0).starts_with("python") && word(1) == "-m") {
    if (word(2) == "torch.distributed.run" || word(2) == "torch.distributed.launch") {
      return {"torchrun", 3};
    }
    if (word(2) == "accelerate.commands.launch") return {"accelerate launch", 3};
  }
  return {};
}

// The variables before the program become spec.env.
void take_variables(const Words& variables, Conversion& conversion) {
  json list = json::array();
  for (const std::string& variable : variables) {
    const size_t equals = variable.find('=');
    const std::string name = variable.substr(0, equals);
    Note note{.key = name, .line = 0, .fate = Fate::kChanged, .field = "", .text = ""};
    if (name == "CUDA_VISIBLE_DEVICES") {
      note.text = "resources.limits ask for GPUs, not for their numbers";
    } else if (common::is_reserved_env(name)) {
      note.text = "the operator sets it itself";
    } else {
      note.fate = Fate::kMapped;
      note.field = "env";
      list.push_back({{"name", name}, {"value", variable.substr(equals + 1)}});
    }
    conversion.notes.push_back(std::move(note));
  }
  if (!list.empty()) conversion.spec["env"] = std::move(list);
}

// What runs once per pod, and the note of what was run.
void take_script(const Words& command, const Words& rest, Draft& draft, Conversion& conversion) {
  if (rest.empty()) {
    conversion.problems.push_back({.message = "the command line names no script"});
    return;
  }
  draft.spec["command"] = command;
  draft.spec["args"] = rest;
  conversion.notes.push_back({rest.front(), 0, Fate::kMapped, "args",
                              "with its " + std::to_string(rest.size() - 1) + " arguments"});
  const std::string script = file_name_of(rest.front());
  draft.metadata["name"] = api::job_name_from_file(
      script.ends_with(".py") ? script.substr(0, script.size() - 3) : script);
  draft.fill_in("image", "registry.example/train:1", "an image with the script and its libraries");
}

// The text of the file that one of `names` names; nothing if none does, or if it cannot be read,
// which is a problem of that flag.
struct NamedFile {
  std::string path;
  std::string text;
};
std::optional<NamedFile> find_file(const Words& names, const ParsedFlags& flags,
                                   const NamedFiles& files, Conversion& conversion) {
  for (const std::string& name : names) {
    const json* found = find_path(flags.document.value, name);
    if (found == nullptr) continue;
    const std::string path = found->is_string() ? found->get<std::string>() : found->dump();
    const auto file = files.find(path);
    if (file != files.end() && file->second) return NamedFile{path, *file->second};
    const std::string why =
        file == files.end() ? path + " was not read" : file->second.error().message;
    conversion.problems.push_back({.path = as_flag(name), .message = why});
    return std::nullopt;
  }
  return std::nullopt;
}

// Ranks of the machines of a host file, as many of them as num_nodes and num_gpus say.
void take_hosts(const ParsedFlags& flags, const NamedFiles& files, Draft& draft,
                Conversion& conversion) {
  const std::optional<NamedFile> file = find_file({"hostfile", "H"}, flags, files, conversion);
  if (!file) return;
  HostFile hosts = parse_host_file(file->path, file->text);
  for (common::Problem& problem : hosts.problems) conversion.problems.push_back(std::move(problem));
  if (common::has_errors(conversion.problems)) return;
  const auto given = [&flags](const char* key) -> std::optional<int64_t> {
    const json* found = find_path(flags.document.value, key);
    return found == nullptr ? std::nullopt : whole(*found);
  };
  const auto refuse = [&](std::string why) {
    conversion.problems.push_back({.path = file->path, .message = std::move(why)});
  };
  const auto num_hosts = static_cast<int64_t>(hosts.slots.size());
  const int64_t nodes = given("num_nodes").value_or(num_hosts);
  const int64_t slots = given("num_gpus").value_or(hosts.slots.front().second);
  if (nodes > num_hosts) refuse("names fewer hosts than --num_nodes asks for");
  for (int64_t i = 0; i < std::min(nodes, num_hosts); ++i) {
    const auto& [host, count] = hosts.slots[static_cast<size_t>(i)];
    const bool fits = given("num_gpus") ? count >= slots : count == slots;
    if (fits) continue;
    return refuse(host + " has " + std::to_string(count) +
                  " slots, and pods are alike: " + std::to_string(slots) + " each");
  }
  const Verdict per_pod = draft.assume("ranksPerPod", slots, "slots of a host in " + file->path);
  const Verdict ranks = draft.assume("ranks", nodes * slots, "hosts x slots of " + file->path);
  for (const Verdict& verdict : {per_pod, ranks}) {
    if (verdict.fate == Fate::kRefused) refuse(verdict.text);
  }
}

// take_all() of flags, whose names in notes and problems have dashes again.
//   file, of_file: the keys that the line has from a file that it names.
void take_flags(const Table& table, const common::Document& document, Draft& draft,
                Conversion& conversion, const std::string& file = "",
                const std::set<std::string>& of_file = {}) {
  Conversion taken;
  take_all(table, document, draft, taken.notes, taken.problems);
  const auto source_of = [&](const std::string& key) {
    return of_file.contains(key) ? file + ": " + key : as_flag(key);
  };
  for (Note& note : taken.notes) {
    note.key = source_of(note.key);
    conversion.notes.push_back(std::move(note));
  }
  for (common::Problem& problem : taken.problems) {
    problem.path = source_of(problem.path);
    conversion.problems.push_back(std::move(problem));
  }
}

// The processes and machines of Accelerate's configuration, which flags go before. All else in it
// is for the launcher in the pod, which reads it again.
json machines_of_config(const NamedFile& file, Conversion& conversion) {
  common::ParsedText parsed = common::parse_documents(file.text);
  if (parsed.problems.empty() &&
      (parsed.documents.size() != 1 || !parsed.documents.front().value.is_object())) {
    parsed.problems.push_back({.line = 1, .message = "must be a map of keys"});
  }
  for (common::Problem& problem : parsed.problems) {
    problem.path = problem.path.empty() ? file.path : file.path + ": " + problem.path;
    conversion.problems.push_back(std::move(problem));
  }
  json machines = json::object();
  if (common::has_errors(conversion.problems)) return machines;
  for (const char* const key : {"num_processes", "num_machines"}) {
    if (const json* found = find_path(parsed.documents.front().value, key)) machines[key] = *found;
  }
  return machines;
}

// The flags of accelerate launch, and what its configuration says in their place.
void take_accelerate_flags(const ParsedFlags& flags, const NamedFiles& files, Draft& draft,
                           Conversion& conversion) {
  const std::optional<NamedFile> file = find_file({"config_file"}, flags, files, conversion);
  const json machines = file ? machines_of_config(*file, conversion) : json::object();
  if (common::has_errors(conversion.problems)) return;
  common::Document all = flags.document;
  std::set<std::string> of_file;
  for (const auto& [key, value] : machines.items()) {
    if (all.value.contains(key)) continue;
    all.value[key] = value;
    of_file.insert(key);
  }
  take_flags(accelerate_launch_table(), all, draft, conversion, file ? file->path : "", of_file);
}

void convert_torchrun(const Words& words, Draft& draft, Conversion& conversion) {
  const ParsedFlags flags = parse_flags(words, torchrun_switches(), torchrun_table());
  conversion.problems = flags.problems;
  if (common::has_errors(conversion.problems)) return;
  take_flags(torchrun_table(), flags.document, draft, conversion);
  const json* processes = draft.find("ranksPerPod");
  draft.assume("ranks", processes == nullptr ? json(1) : *processes, "one node, the default");
  Words command = {"torchrun"};
  if (draft.key("m") != nullptr || draft.key("module") != nullptr) command.emplace_back("-m");
  if (draft.key("no_python") != nullptr) command.emplace_back("--no-python");
  take_script(command, flags.rest, draft, conversion);
}

void convert_deepspeed_launch(const Words& words, const NamedFiles& files, Draft& draft,
                              Conversion& conversion) {
  const ParsedFlags flags = parse_flags(words, deepspeed_switches(), deepspeed_launch_table());
  conversion.problems = flags.problems;
  if (common::has_errors(conversion.problems)) return;
  take_hosts(flags, files, draft, conversion);
  if (common::has_errors(conversion.problems)) return;
  take_flags(deepspeed_launch_table(), flags.document, draft, conversion);
  const json* processes = draft.find("ranksPerPod");
  if (processes != nullptr) draft.assume("ranks", *processes, "one node, the default");
  conversion.notes.push_back({"deepspeed", 0, Fate::kChanged, "command",
                              "torchrun starts the processes of a pod, without ssh; the script "
                              "finds LOCAL_RANK in its environment, not --local_rank"});
  Words command = {"torchrun"};
  if (draft.key("module") != nullptr) command.emplace_back("-m");
  if (draft.key("no_python") != nullptr) command.emplace_back("--no-python");
  take_script(command, flags.rest, draft, conversion);
}

void convert_accelerate_launch(const Words& words, const NamedFiles& files, Draft& draft,
                               Conversion& conversion) {
  const ParsedFlags flags = parse_flags(words, accelerate_switches(), accelerate_launch_table());
  conversion.problems = flags.problems;
  if (common::has_errors(conversion.problems)) return;
  take_accelerate_flags(flags, files, draft, conversion);
  if (common::has_errors(conversion.problems)) return;
  // A shell, so that the same line serves in a pod and under lockstep run.
  take_script({"sh", "-c",
               "exec accelerate launch --num_processes $WORLD_SIZE --num_machines $PET_NNODES "
               "--machine_rank $PET_NODE_RANK --main_process_ip $MASTER_ADDR "
               "--main_process_port $MASTER_PORT \"$@\"",
               "accelerate"},
              flags.rest, draft, conversion);
  Words arguments = kept_accelerate_flags(flags.document.value);
  arguments.insert(arguments.end(), flags.rest.begin(), flags.rest.end());
  draft.spec["args"] = std::move(arguments);
}

// Moves MLflow's of `variables` into `document`.
void take_mlflow_variables(Words& variables, common::Document& document) {
  std::erase_if(variables, [&document](const std::string& variable) {
    const size_t equals = variable.find('=');
    const std::string name = variable.substr(0, equals);
    const Table rows = mlflow_variables();
    const bool is_known =
        std::any_of(rows.begin(), rows.end(), [&name](const Row& row) { return row.key == name; });
    if (is_known) document.value[name] = variable.substr(equals + 1);
    return is_known;
  });
}

// `aitraining llm --train --model ...`: the flags are the keys of its configuration, and so are
// some of the variables, which are taken out of `variables`.
Conversion convert_aitraining_line(const Words& words, Words& variables) {
  const bool has_task = !words.empty() && !words.front().starts_with('-');
  ParsedFlags flags = parse_open_flags(from(words, has_task ? 1 : 0));
  if (common::has_errors(flags.problems)) {
    return {.tool = "AITraining", .problems = std::move(flags.problems)};
  }
  if (has_task) flags.document.value["task"] = words.front();
  take_mlflow_variables(variables, flags.document);
  if (const json* config = find_path(flags.document.value, "config")) {
    return {.tool = "AITraining",
            .problems = {{.path = "--config",
                          .message = "is a file of its own",
                          .hint = "lockstep import " + config->dump()}}};
  }
  return convert_aitraining(flags.document);
}

}  // namespace

std::vector<std::string> files_of_command_line(const Words& words) {
  std::vector<std::string> files;
  for (size_t i = 0; i < words.size(); ++i) {
    std::string flag = words[i];
    std::replace(flag.begin(), flag.end(), '-', '_');
    for (const char* const name : {"__hostfile", "__config_file", "_H"}) {
      const std::string with_value = std::string(name).append("=");
      if (flag == name && i + 1 < words.size()) files.push_back(words[i + 1]);
      if (flag.starts_with(with_value)) files.push_back(words[i].substr(with_value.size()));
    }
    // What follows is the script's.
    if (flag.ends_with(".py")) break;
  }
  return files;
}

Conversion convert_command_line(const Words& words, const NamedFiles& files) {
  const auto program = std::find_if_not(words.begin(), words.end(), is_assignment);
  Words variables(words.begin(), program);
  const Words line(program, words.end());
  const Launcher launcher = launcher_of(line);
  if (launcher.name == nullptr) {
    const std::string found = line.empty() ? "nothing" : line.front();
    return {.tool = "a command line",
            .problems = {{.message = "no launcher that import knows, found " + found,
                          .hint = "torchrun, accelerate launch, deepspeed or aitraining"}}};
  }
  const std::string name = launcher.name;
  const Words arguments = from(line, launcher.num_words);
  Conversion conversion{.tool = name};
  if (name == "aitraining") {
    conversion = convert_aitraining_line(arguments, variables);
  } else {
    Draft draft;
    if (name == "torchrun") convert_torchrun(arguments, draft, conversion);
    if (name == "deepspeed") convert_deepspeed_launch(arguments, files, draft, conversion);
    if (name == "accelerate launch") convert_accelerate_launch(arguments, files, draft, conversion);
    move_into(conversion, std::move(draft));
  }
  take_variables(variables, conversion);
  return conversion;
}

}  // namespace lockstep::convert

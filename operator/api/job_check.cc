#include "operator/api/job_check.h"

#include <algorithm>
#include <set>

#include "operator/api/gang_check.h"
#include "operator/api/job_fields.h"
#include "operator/api/json_read.h"
#include "operator/api/template_check.h"
#include "runtime/common/env_names.h"
#include "runtime/common/schema.h"
#include "runtime/common/suggest.h"
#include "runtime/common/train_config.h"

namespace lockstep::api {
namespace {

using common::Problem;
using common::Problems;
using nlohmann::json;

// The member `key` if it is there and not null.
const json* find(const json& object, const char* key) {
  if (!object.is_object()) return nullptr;
  const auto found = object.find(key);
  return found == object.end() || found->is_null() ? nullptr : &*found;
}

void check_program(const json& spec, Problems& problems) {
  const bool has_train = find(spec, "train") != nullptr;
  const bool has_command = find(spec, "command") != nullptr;
  if (has_train && has_command) {
    problems.push_back({.path = "spec.command",
                        .message = "train and command exclude each other",
                        .hint = "remove one of them"});
  } else if (!has_train && !has_command) {
    problems.push_back(
        {.path = "spec.train", .message = "is required", .hint = "or give a command"});
  }
  if (find(spec, "args") != nullptr && !has_command) {
    problems.push_back({.path = "spec.args", .message = "args need a command"});
  }
}

void check_volume(const json& volume, const std::string& path, Problems& problems) {
  if (!volume.is_object()) return;
  const auto& names = volume_source_names();
  const auto given = std::count_if(names.begin(), names.end(), [&](const std::string& name) {
    return find(volume, name.c_str()) != nullptr;
  });
  if (given != 1) {
    problems.push_back({.path = path,
                        .message = "must have exactly one of " + common::join(names) + ", found " +
                                   std::to_string(given)});
  }
}

void check_mounts(const json& inputs, Problems& problems) {
  std::set<std::string> seen = {"/output"};
  for (size_t i = 0; i < inputs.size(); ++i) {
    const std::string path = common::item_path("spec.inputs", i);
    check_volume(inputs[i], path, problems);
    const std::string mount = text(inputs[i], "mountPath");
    if (!mount.empty() && !seen.insert(mount).second) {
      problems.push_back({.path = path + ".mountPath",
                          .message = mount + (mount == "/output" ? " is where output is mounted"
                                                                 : " is mounted twice")});
    }
  }
}

void check_env(const json& env, Problems& problems) {
  for (size_t i = 0; i < env.size(); ++i) {
    const std::string name = text(env[i], "name");
    if (common::is_reserved_env(name)) {
      problems.push_back({.path = common::item_path("spec.env", i) + ".name",
                          .message = name + " is set by the operator itself",
                          .hint = "remove it"});
    }
  }
}

// Which of two values counts could only be guessed.
void check_env_once(const json& env, const json& train, Problems& problems) {
  const json* communication = find(train, "communication");
  const json* of_ranks = communication != nullptr ? find(*communication, "env") : nullptr;
  if (of_ranks == nullptr || !of_ranks->is_object()) return;
  for (size_t i = 0; i < env.size(); ++i) {
    const std::string name = text(env[i], "name");
    if (find(*of_ranks, name.c_str()) == nullptr) continue;
    problems.push_back({.path = common::child_path("spec.train.communication.env", name),
                        .message = "is set by " + common::item_path("spec.env", i) + " too",
                        .hint = "set it in one of them"});
  }
}

void check_rules(const json& policy, Problems& problems) {
  const json* rules = find(policy, "rules");
  if (rules == nullptr || !rules->is_array()) return;
  for (size_t i = 0; i < rules->size(); ++i) {
    if ((find((*rules)[i], "exitCodes") != nullptr) == (find((*rules)[i], "reasons") != nullptr)) {
      problems.push_back({.path = common::item_path("spec.failurePolicy.rules", i),
                          .message = "must have exactly one of exitCodes and reasons"});
    }
  }
}

// `policy` as far as check_rules() reads it.
json relations_of(const FailurePolicy& policy) {
  json rules = json::array();
  for (const FailureRule& rule : policy.rules) {
    json item = json::object();
    if (!rule.exit_codes.empty()) item["exitCodes"] = rule.exit_codes;
    if (!rule.reasons.empty()) item["reasons"] = rule.reasons;
    rules.push_back(std::move(item));
  }
  return {{"rules", std::move(rules)}};
}

}  // namespace

Problems check_name(const std::string& name) {
  if (name.empty()) return {{.path = "metadata.name", .message = "is required"}};
  if (name.size() > static_cast<size_t>(kMaxNameLength)) {
    return {{.path = "metadata.name",
             .message = "must have at most " + std::to_string(kMaxNameLength) +
                        " characters, found " + std::to_string(name.size()),
             .hint = "names of pods are made of it"}};
  }
  if (!common::matches(name, kNamePattern)) {
    return {{.path = "metadata.name",
             .message = "must be lower-case letters, digits and '-', beginning with a letter, "
                        "found \"" +
                        name + "\""}};
  }
  return {};
}

namespace {

// The last pod has as many ranks as the others.
void check_pods(const json& spec, Problems& problems) {
  const json* ranks = find(spec, "ranks");
  const json* per_pod = find(spec, "ranksPerPod");
  if (ranks == nullptr || per_pod == nullptr) return;
  if (!ranks->is_number_integer() || !per_pod->is_number_integer()) return;
  const auto count = per_pod->get<int64_t>();
  const bool in_bounds = count >= 1 && count <= kMaxRanksPerPod;  // else told already
  if (!in_bounds || ranks->get<int64_t>() % count == 0) return;
  problems.push_back({.path = "spec.ranksPerPod",
                      .message = std::to_string(count) +
                                 " does not divide ranks: " + std::to_string(ranks->get<int64_t>()),
                      .hint = "every pod has the same number of ranks"});
}

void check_count(int64_t count, int64_t most, const char* path, Problems& problems) {
  if (count >= 1 && count <= most) return;
  problems.push_back({.path = path,
                      .message = std::string("must be from 1 to ")
                                     .append(std::to_string(most))
                                     .append(", found ")
                                     .append(std::to_string(count))});
}

// Relations of all but what is inside of `train`.
Problems check_around_train(const json& spec) {
  Problems problems;
  check_program(spec, problems);
  check_pods(spec, problems);
  if (const json* inputs = find(spec, "inputs"); inputs != nullptr && inputs->is_array()) {
    check_mounts(*inputs, problems);
  }
  if (const json* output = find(spec, "output")) check_volume(*output, "spec.output", problems);
  if (const json* env = find(spec, "env"); env != nullptr && env->is_array()) {
    check_env(*env, problems);
    if (const json* train = find(spec, "train")) check_env_once(*env, *train, problems);
  }
  if (const json* policy = find(spec, "failurePolicy")) check_rules(*policy, problems);
  for (Problem& problem : check_template(spec)) problems.push_back(std::move(problem));
  for (Problem& problem : check_gang(spec)) problems.push_back(std::move(problem));
  return problems;
}

}  // namespace

Problems check_spec_relations(const json& spec) {
  if (!spec.is_object()) return {};
  Problems problems = check_around_train(spec);
  const json* ranks = find(spec, "ranks");
  const bool known_ranks = ranks != nullptr && ranks->is_number_integer();
  if (const json* train = find(spec, "train")) {
    const int64_t count = known_ranks ? ranks->get<int64_t>() : 0;  // 0: leaves out the batch
    for (Problem& problem : common::check_train_relations(*train, count, "spec.train")) {
      problems.push_back(std::move(problem));
    }
  }
  return problems;
}

Problems check_job(const TrainingJob& job) {
  const TrainingJobSpec& spec = job.spec;
  Problems problems = check_name(job.meta.name);
  check_count(spec.ranks, kMaxRanks, "spec.ranks", problems);
  check_count(spec.ranks_per_pod, kMaxRanksPerPod, "spec.ranksPerPod", problems);
  json relations = {{"ranks", spec.ranks},
                    {"ranksPerPod", spec.ranks_per_pod},
                    {"inputs", spec.inputs},
                    {"output", spec.output},
                    {"env", json::array()}};
  relations["template"] = spec.pod_template;
  relations["failurePolicy"] = relations_of(spec.failure_policy);
  relations["scheduling"] = {{"gangScheduler", to_string(spec.scheduling.gang_scheduler)}};
  for (const auto& [name, value] : spec.env) relations["env"].push_back({{"name", name}});
  if (!spec.command.empty()) relations["command"] = spec.command;
  if (!spec.args.empty()) relations["args"] = spec.args;
  if (!spec.train.is_null()) {  // that it is there, and what is compared with spec.env
    relations["train"] = json::object();
    if (const json* communication = find(spec.train, "communication")) {
      relations["train"]["communication"] = *communication;
    }
  }
  for (Problem& problem : check_around_train(relations)) problems.push_back(std::move(problem));
  if (!spec.train.is_null()) {
    for (Problem& problem : common::check_train(spec.train, spec.ranks, "spec.train")) {
      problems.push_back(std::move(problem));
    }
  }
  return problems;
}

}  // namespace lockstep::api

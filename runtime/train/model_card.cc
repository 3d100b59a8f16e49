#include "runtime/train/model_card.h"

#include <set>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "runtime/common/hub_inputs.h"

namespace lockstep::runtime {
namespace {

using common::HubInput;
using common::HubKind;
using nlohmann::json;

std::string text_of(double value) {
  return json(value).dump();
}

// "`hf://org/name@main`, commit 0123..."
std::string at_commit(const HubInput& input, const Manifest& manifest) {
  std::string text = "`" + input.text + "`";
  const auto commit = manifest.hub_commits.find(repository_name(input.reference));
  if (commit != manifest.hub_commits.end()) text += ", commit " + commit->second;
  return text;
}

// What the field names, if that is on the hub; else `otherwise`.
std::string place_of(const std::vector<HubInput>& inputs, const std::string& field,
                     const Manifest& manifest, const std::string& otherwise) {
  for (const HubInput& input : inputs) {
    if (input.field == field) return at_commit(input, manifest);
  }
  return otherwise;
}

std::string front_matter(const std::vector<HubInput>& inputs, const common::ModelConfig& model) {
  std::string models;
  std::set<std::string> datasets;
  for (const HubInput& input : inputs) {
    if (input.field == "model.path") models = "base_model: " + input.reference.repo + "\n";
    if (input.reference.kind == HubKind::kDataset) datasets.insert(input.reference.repo);
  }
  const std::string task = model.has_score ? "text-classification" : "text-generation";
  std::string text = "---\nlibrary_name: transformers\npipeline_tag: " + task + "\n" + models;
  if (!datasets.empty()) text += "datasets:\n";
  for (const std::string& repo : datasets) text.append("- ").append(repo).append("\n");
  return text + "tags:\n- lockstep\n---\n";
}

// Rows of the table: what, value.
using Rows = std::vector<std::pair<std::string, std::string>>;

void add_data(const CardFacts& facts, const std::vector<HubInput>& inputs, Rows& rows) {
  const std::vector<common::DataSource>& sources = facts.train.data.sources;
  const std::string files = "files with fingerprint " + facts.manifest.corpus_fingerprint;
  if (sources.size() == 1) {
    rows.emplace_back("training data",
                      place_of(inputs, sources.front().field, facts.manifest, files));
    return;
  }
  rows.emplace_back("training data",
                    std::to_string(sources.size()) + " sources, mixed by weight; " + files);
  for (const common::DataSource& source : sources) {
    rows.emplace_back("source of weight " + text_of(source.weight),
                      place_of(inputs, source.field, facts.manifest, "files"));
  }
}

void add_results(const CardFacts& facts, Rows& rows) {
  const Manifest& manifest = facts.manifest;
  rows.emplace_back("step", std::to_string(manifest.step));
  rows.emplace_back("samples seen", std::to_string(manifest.samples_consumed) + ", of " +
                                        std::to_string(facts.train.data.sequence_length) +
                                        " tokens at most");
  if (facts.loss) rows.emplace_back("training loss of that step", text_of(*facts.loss));
  if (manifest.evaluations.best_step == 0) return;
  rows.emplace_back("best validation loss", text_of(manifest.evaluations.best_loss) + ", at step " +
                                                std::to_string(manifest.evaluations.best_step));
}

void add_settings(const CardFacts& facts, const json& train, Rows& rows) {
  const auto setting = [&train](const char* pointer) {
    const json value = train.value(json::json_pointer(pointer), json());
    return value.is_string() ? value.get<std::string>() : value.dump();
  };
  rows.emplace_back("task", setting("/task"));
  rows.emplace_back(
      common::is_preference(facts.train.task) ? "pairs per step" : "sequences per step",
      std::to_string(facts.manifest.global_batch_size));
  rows.emplace_back("optimizer", setting("/optimizer/name") + ", learning rate " +
                                     setting("/optimizer/lr") + ", " + setting("/schedule/name"));
  rows.emplace_back("precision", setting("/precision"));
  rows.emplace_back("seed", std::to_string(facts.manifest.seed));
  rows.emplace_back("ranks", std::to_string(facts.manifest.ranks) + ", " + facts.manifest.strategy);
}

}  // namespace

std::string model_card(const CardFacts& facts) {
  const Manifest& manifest = facts.manifest;
  const json train = json::parse(manifest.train_json);
  const std::vector<HubInput> inputs = common::hub_inputs(train);
  const std::string first_weights =
      facts.train.model_source.is_pretrained
          ? place_of(inputs, "model.path", manifest,
                     "a directory with fingerprint " + manifest.pretrained_fingerprint)
          : "random";
  Rows rows = {{"model", facts.train.model.model_type + ", " +
                             std::to_string(facts.num_parameters) + " parameters"},
               {"weights", std::string(to_string(facts.dtype)) + ", of fp32 masters"},
               {"first weights", first_weights}};
  add_data(facts, inputs, rows);
  if (facts.train.task == common::Task::kDistill) {
    rows.emplace_back("teacher", place_of(inputs, "distill.teacher", manifest, "a directory"));
  }
  if (facts.train.data.validation_fraction > 0) {
    rows.emplace_back("held out of it", text_of(facts.train.data.validation_fraction) +
                                            " of its documents, to measure the loss on");
  }
  add_results(facts, rows);
  add_settings(facts, train, rows);
  std::string text = front_matter(inputs, facts.train.model) +
                     "\nTrained with Lockstep. Say here what the model is for, and what it is not; "
                     "what follows are the facts of its run.\n\n| | |\n|---|---|\n";
  for (const auto& [what, value] : rows) {
    text.append("| ").append(what).append(" | ").append(value).append(" |\n");
  }
  return text;
}

}  // namespace lockstep::runtime

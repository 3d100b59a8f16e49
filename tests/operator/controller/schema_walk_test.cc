// Every field of a TrainingJob's spec, from the table that the CRD is made of: at its bounds,
// beyond them, of a wrong type, misspelt, removed and restored. The real API server refuses it
// exactly where our own check of manifests does, or an operator says Accepted or not as that check
// does, and what the server stores has our defaults. Needs what real_server.h needs. Run by the
// cluster tests: `make test` takes every third of these, `make test-full` all.
#include <algorithm>
#include <cmath>
#include <iostream>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include <gtest/gtest.h>

#include "operator/api/job_check.h"
#include "operator/api/job_fields.h"
#include "runtime/common/schema.h"
#include "tests/operator/controller/real_server.h"

namespace lockstep::control {
namespace {

using common::Field;
using common::FieldType;
using nlohmann::json;

// A valid value, as small as can be.
json sample(const Field& field);

json sample_text(const Field& field) {
  for (const char* text : {"a", "/a", "A", "x.dev/y", "1", "a1", "1Gi"}) {
    const std::string found(text);
    if (!field.pattern.empty() && !common::matches(found, field.pattern)) continue;
    if (static_cast<int64_t>(found.size()) >= field.min_length) return found;
  }
  return std::string(static_cast<std::size_t>(std::max<int64_t>(field.min_length, 1)), 'a');
}

json sample_number(const Field& field, double step) {
  double value = field.minimum.value_or(field.maximum.value_or(1) < 1 ? *field.maximum : 1);
  if (field.exclusive_minimum) value += step;
  if (field.type == FieldType::kInteger) return static_cast<int64_t>(value);
  return value;
}

json sample_object(const Field& field) {
  json value = json::object();
  for (const Field& child : field.children) {
    if (child.required) value[child.name] = sample(child);
  }
  return value;
}

json sample(const Field& field) {
  if (!field.choices.empty()) return field.choices.front();
  switch (field.type) {
    case FieldType::kString:
      return sample_text(field);
    case FieldType::kInteger:
      return sample_number(field, 1);
    case FieldType::kNumber:
      return sample_number(field, 1e-3);
    case FieldType::kBoolean:
      return true;
    case FieldType::kQuantity:
      return "1";
    case FieldType::kObject:
      return sample_object(field);
    case FieldType::kList:
      return json::array({sample(field.element.front())});
    case FieldType::kFree:
      return {{"spec", {{"nodeSelector", {{"a", "b"}}}}}};
    case FieldType::kMap:
      return {{"cpu", sample(field.element.front())}};
  }
  return nullptr;
}

// Something that a field is made into. No value: the field is removed.
struct Mutation {
  std::string what;
  std::optional<json> value;
  bool is_wrong = false;  // whatever the other fields say
};

json of_wrong_type(const Field& field) {
  switch (field.type) {
    case FieldType::kString:
    case FieldType::kList:
      return 7;
    case FieldType::kObject:
    case FieldType::kMap:
    case FieldType::kFree:
    case FieldType::kQuantity:
      return json::array({json::array()});
    default:
      return "seven";
  }
}

void mutate_number(const Field& field, std::vector<Mutation>& out) {
  const bool is_integer = field.type == FieldType::kInteger;
  const auto number = [is_integer](double value) {
    return is_integer ? json(static_cast<int64_t>(value)) : json(value);
  };
  // One beyond a bound; of a number so large that one more is itself, a thousandth.
  const auto beyond = [is_integer](double bound) {
    return is_integer ? 1.0 : std::max(1.0, std::abs(bound) * 1e-3);
  };
  if (field.minimum) {
    out.push_back({"at the minimum", number(*field.minimum), field.exclusive_minimum});
    out.push_back({"below the minimum", number(*field.minimum - beyond(*field.minimum)), true});
  }
  if (field.maximum) {
    out.push_back({"at the maximum", number(*field.maximum), field.exclusive_maximum});
    out.push_back({"above the maximum", number(*field.maximum + beyond(*field.maximum)), true});
  }
  if (is_integer) out.push_back({"a fraction", 1.5, true});
}

void mutate_text(const Field& field, std::vector<Mutation>& out) {
  const auto longest = static_cast<std::size_t>(field.max_length);
  if (field.choices.empty()) {
    out.push_back({"too long", std::string(longest + 1, 'a'), true});
    if (field.pattern.empty()) out.push_back({"as long as can be", std::string(longest, 'a')});
    if (!field.pattern.empty()) out.push_back({"against the pattern", "\n", true});
    if (field.min_length > 0) out.push_back({"empty", "", true});
  } else {
    out.push_back({"not a choice", "no-such-choice", true});
  }
}

std::vector<Mutation> mutations(const Field& field) {
  std::vector<Mutation> out;
  for (const json& choice : field.choices) out.push_back({"choice " + choice.dump(), choice});
  for (const std::string& name : field.planned) {
    if (field.type == FieldType::kString) out.push_back({"planned " + name, name, true});
  }
  if (field.type == FieldType::kInteger || field.type == FieldType::kNumber) {
    if (field.choices.empty()) mutate_number(field, out);
  } else if (field.type == FieldType::kString) {
    mutate_text(field, out);
  } else if (field.type == FieldType::kBoolean) {
    out.push_back({"true", true});
    out.push_back({"false", false});
  } else if (field.type == FieldType::kList) {
    out.push_back({"empty", json::array(), field.min_items > 0});
    json many = json::array();
    for (int64_t i = 0; i <= field.max_items; ++i) many.push_back(sample(field.element.front()));
    out.push_back({"too many", many, true});
  } else if (field.type == FieldType::kObject) {
    json misspelt = sample(field);
    misspelt["noSuchField"] = 1;
    out.push_back({"with an unknown field", misspelt, true});
    for (const std::string& name : field.planned) {
      json planned = sample(field);
      planned[name] = json::object();
      out.push_back({"with " + name, planned, true});
    }
  } else if (field.type == FieldType::kFree) {
    out.push_back({"empty", json::object()});
    out.push_back({"against the gang", {{"spec", {{"restartPolicy", "Always"}}}}});
  } else if (field.type == FieldType::kQuantity) {
    out.push_back({"no quantity", "1 potato", true});
  }
  out.push_back({"a sample", sample(field)});
  out.push_back({"of a wrong type", of_wrong_type(field), true});
  out.push_back({"removed", std::nullopt, field.required});
  return out;
}

json train_base() {
  return json::parse(R"({"ranks": 2, "suspend": true, "train": {
      "model": {"config": {"vocab_size": 256, "hidden_size": 64, "intermediate_size": 128,
                           "num_hidden_layers": 2, "num_attention_heads": 4}},
      "data": {"train": "corpus", "sequenceLength": 32},
      "batch": {"globalBatchSize": 8, "microBatchSize": 1}, "steps": 100}})");
}

json command_base() {
  return {{"ranks", 2}, {"suspend", true}, {"command", {"true"}}};
}

// Where a field is, from the spec down: names, and 0 for the first item of a list.
struct Step {
  const Field* field = nullptr;
  std::string key;  // empty: an item
};

// Puts `value` there, and on the way whatever the parents need to be valid by themselves.
void put(json& at, const std::vector<Step>& path, std::size_t depth, const Mutation& mutation) {
  const Step& step = path[depth];
  const bool is_last = depth + 1 == path.size();
  const auto& sources = api::volume_source_names();
  if (std::find(sources.begin(), sources.end(), step.key) != sources.end()) {
    for (const std::string& other : sources) at.erase(other);  // exactly one of them
  }
  if (is_last && step.key.empty()) {
    at = json::array();
    if (mutation.value) at.push_back(*mutation.value);
    return;
  }
  if (is_last) {
    at.erase(step.key);
    if (mutation.value) at[step.key] = *mutation.value;
    return;
  }
  if (step.key.empty()) {
    if (at.empty()) at.push_back(sample(*step.field));
    return put(at.front(), path, depth + 1, mutation);
  }
  if (!at.contains(step.key)) at[step.key] = sample(*step.field);
  put(at[step.key], path, depth + 1, mutation);
}

class SchemaWalkTest : public testing::Test {
 protected:
  // What our own check of manifests says.
  static common::Checked check(const json& spec) {
    common::Checked checked = common::check_and_default(api::spec_fields(), spec, "spec");
    for (const common::Problem& problem : api::check_spec_relations(checked.value)) {
      checked.problems.push_back(problem);
    }
    return checked;
  }

  static std::string name_of(const std::vector<Step>& path) {
    std::string name = "spec";
    for (const Step& step : path) name += step.key.empty() ? "[0]" : "." + step.key;
    return name;
  }

  void walk(const Field& parent, std::vector<Step>& path) {
    const std::vector<Field>& children = parent.element.empty() ? parent.children : parent.element;
    for (const Field& child : children) {
      const bool is_item = !parent.element.empty();
      if (is_item && parent.type == FieldType::kMap) return;  // met as the map's sample
      path.push_back({&child, is_item ? "" : child.name});
      ++num_fields_;
      for (const Mutation& mutation : mutations(child)) {
        if (num_met_++ % stride_ == 0) try_one(path, mutation);
      }
      walk(child, path);
      path.pop_back();
    }
  }

  void try_one(const std::vector<Step>& path, const Mutation& mutation) {
    const std::string& top = path.front().key;
    const bool is_own = top == "command" || top == "args";
    const json base = is_own ? command_base() : train_base();
    json spec = base;
    put(spec, path, 0, mutation);
    const std::string what = name_of(path) + ": " + mutation.what;
    const common::Checked checked = check(spec);
    const bool is_wrong = common::has_errors(checked.problems);
    if (mutation.is_wrong) {
      EXPECT_TRUE(is_wrong) << what << ": our own check accepts it";
    }
    const std::string name = std::string("j").append(std::to_string(num_mutations_++));
    const json body = {{"apiVersion", "lockstep.dev/v1alpha1"},
                       {"kind", "TrainingJob"},
                       {"metadata", {{"name", name}}},
                       {"spec", spec}};
    const auto created = client_->create({kTrainingJobs, ns_.name(), "", ""}, body);
    if (const auto* error = std::get_if<kube::ApiError>(&created)) {
      ++num_refused_;
      EXPECT_TRUE(is_wrong) << what << ": only the server refuses it: " << error->error.message;
      EXPECT_EQ(error->error.code, common::ErrorCode::kInvalidArgument) << what;
      return;
    }
    EXPECT_FALSE(mutation.is_wrong) << what << ": the server accepts it";
    const json& stored = std::get<json>(created);
    if (!is_wrong) {
      EXPECT_EQ(stored["spec"], checked.value) << what;
    }
    stored_.push_back({name, what, !is_wrong, base, stored});
  }

  // Accepted of the job's present generation: True, False, or empty.
  std::string accepted(const std::string& name) {
    const auto found = client_->get({kTrainingJobs, ns_.name(), name, ""});
    const auto* job = std::get_if<json>(&found);
    if (job == nullptr || !job->contains("status")) return "";
    for (const json& condition : (*job)["status"].value("conditions", json::array())) {
      const bool is_current =
          condition.value("observedGeneration", 0) == (*job)["metadata"]["generation"];
      if (condition["type"] == "Accepted" && is_current) return condition["status"];
    }
    return "";
  }

  struct Stored {
    std::string name, what;
    bool is_accepted = false;
    json base;
    json object;
  };

  // It may be judged and changed by nobody but the controller that it names.
  static bool is_anothers(const Stored& one) { return one.object["spec"].contains("managedBy"); }

  std::unique_ptr<kube::Client> client_ = connect_to_real_server();
  TestNamespace ns_{*client_, "walk"};
  std::vector<Stored> stored_;
  const int stride_ = case_stride();
  int num_fields_ = 0, num_met_ = 0, num_mutations_ = 0, num_refused_ = 0;
};

TEST_F(SchemaWalkTest, EveryFieldIsRefusedAtAdmissionOrJudgedAsDeclared) {
  std::vector<Step> path;
  walk(api::spec_fields(), path);
  OperatorProcess process(ns_.name(), {});
  int num_accepted = 0, num_judged_wrong = 0;
  for (const Stored& one : stored_) {
    if (is_anothers(one)) continue;
    const std::string expected = one.is_accepted ? "True" : "False";
    await("Accepted of " + one.what, [&] { return !accepted(one.name).empty(); });
    EXPECT_EQ(accepted(one.name), expected) << one.what;
    ++(one.is_accepted ? num_accepted : num_judged_wrong);
  }
  // Restored: what was mutated is put back, and the job is as good as any.
  int num_restored = 0;
  for (const Stored& one : stored_) {
    if (is_anothers(one)) {
      EXPECT_EQ(accepted(one.name), "") << one.what << ": another controller's job was judged";
      continue;
    }
    json body = std::get<json>(client_->get({kTrainingJobs, ns_.name(), one.name, ""}));
    body["spec"] = one.base;
    const auto put_back = client_->replace({kTrainingJobs, ns_.name(), one.name, ""}, body);
    const auto* error = std::get_if<kube::ApiError>(&put_back);
    EXPECT_EQ(error, nullptr) << one.what << ": " << (error ? error->error.message : "");
    ++num_restored;
  }
  for (const Stored& one : stored_) {
    // A job that was not suspended has run meanwhile, and may have ended: then it stays as it is.
    if (is_anothers(one) || one.object["spec"]["suspend"] != true) continue;
    await("Accepted of restored " + one.what, [&] { return accepted(one.name) == "True"; });
  }
  std::cout << num_fields_ << " fields, " << num_mutations_ << " mutations: " << num_refused_
            << " refused at admission, " << num_accepted << " Accepted, " << num_judged_wrong
            << " Accepted=False, " << num_restored << " restored\n";
  EXPECT_GT(num_fields_, 100);
  EXPECT_GT(num_mutations_, 3 * num_fields_ / stride_);
}

}  // namespace
}  // namespace lockstep::control

#include "operator/convert/import_source.h"

#include <algorithm>
#include <utility>

#include "operator/api/manifest.h"
#include "operator/convert/accelerate.h"
#include "operator/convert/aitraining.h"
#include "operator/convert/complete.h"
#include "operator/convert/deepspeed.h"
#include "operator/convert/draft.h"
#include "operator/convert/instructlab.h"
#include "operator/convert/kubeflow.h"
#include "operator/convert/manifest_text.h"
#include "runtime/common/suggest.h"

namespace lockstep::convert {
namespace {

using common::Document;
using nlohmann::json;

bool has_any(const json& value, const std::vector<std::string>& keys) {
  return std::any_of(keys.begin(), keys.end(),
                     [&value](const std::string& key) { return value.contains(key); });
}

struct Source {
  const char* kind;
  bool (*looks_like)(const json& document);
  Conversion (*convert)(const Document& document);
};

bool is_deepspeed(const json& document) {
  return has_any(document, {"zero_optimization", "train_batch_size",
                            "train_micro_batch_size_per_gpu", "bf16", "fp16"});
}

bool is_accelerate(const json& document) {
  return has_any(document, {"compute_environment", "distributed_type", "fsdp_config"});
}

bool is_aitraining(const json& document) {
  return has_any(document, {"base_model", "project_name", "params"}) && document.contains("task");
}

bool is_instructlab(const json& document) {
  const json* train = find_path(document, "train");
  return (train != nullptr && train->is_object()) || find_path(document, "model.base") != nullptr;
}

// A Kubernetes object of that kind.
bool is_kind_of(const json& document, const char* kind) {
  const json* found = find_path(document, "kind");
  return found != nullptr && *found == kind;
}

bool is_pytorchjob(const json& document) {
  return is_kind_of(document, "PyTorchJob");
}

bool is_trainjob(const json& document) {
  return is_kind_of(document, "TrainJob");
}

// In this order they are tried.
constexpr Source kSources[] = {{"pytorchjob", is_pytorchjob, convert_pytorchjob},
                               {"trainjob", is_trainjob, convert_trainjob},
                               {"accelerate", is_accelerate, convert_accelerate},
                               {"aitraining", is_aitraining, convert_aitraining},
                               {"instructlab", is_instructlab, convert_instructlab},
                               {"deepspeed", is_deepspeed, convert_deepspeed}};

const Source* find_source(const json& document, const std::string& from) {
  for (const Source& source : kSources) {
    if (from == "auto" ? source.looks_like(document) : from == source.kind) return &source;
  }
  return nullptr;
}

// The one document of `text`; what is wrong goes to `problems`.
std::optional<Document> read(const std::string& text, common::Problems& problems) {
  common::ParsedText parsed = common::parse_documents(text);
  problems = std::move(parsed.problems);
  if (common::has_errors(problems)) return std::nullopt;
  std::erase_if(parsed.documents, [](const Document& each) { return each.value.is_null(); });
  if (parsed.documents.empty()) {
    problems.push_back({.message = "the file is empty"});
  } else if (parsed.documents.size() > 1) {
    problems.push_back(
        {.message = "the file holds several documents", .hint = "put each in a file of its own"});
  } else if (!parsed.documents.front().value.is_object()) {
    problems.push_back({.line = 1, .message = "must be a map of keys"});
  }
  if (common::has_errors(problems)) return std::nullopt;
  return std::move(parsed.documents.front());
}

// The manifest, held against the check of lockstep validate.
void finish(const ImportOptions& options, Imported& imported) {
  Conversion& conversion = imported.conversion;
  if (!conversion.metadata.contains("name")) {
    conversion.metadata["name"] = api::job_name_from_file(options.file_name);
  }
  complete(options.sets, conversion);
  if (common::has_errors(conversion.problems)) return;
  imported.manifest = manifest_text(conversion, options.file_name);
  const api::Manifest manifest = api::parse_manifest(imported.manifest, {.file_name = "manifest"});
  if (!common::has_errors(manifest.problems)) return;
  for (common::Problem problem : manifest.problems) {
    problem.line = 0;  // of a text that nobody has seen
    conversion.problems.push_back(std::move(problem));
  }
  imported.manifest.clear();
}

}  // namespace

const std::vector<std::string>& source_kinds() {
  static const std::vector<std::string> kinds = [] {
    std::vector<std::string> names;
    for (const Source& source : kSources) names.emplace_back(source.kind);
    return names;
  }();
  return kinds;
}

Imported import_text(const std::string& text, const ImportOptions& options) {
  Imported imported;
  const std::optional<Document> document = read(text, imported.conversion.problems);
  if (!document) return imported;
  const Source* source = find_source(document->value, options.from);
  if (source == nullptr) {
    imported.conversion.problems.push_back(
        {.message = "is no configuration that import knows",
         .hint = "name its tool with --from: " + common::join(source_kinds())});
    return imported;
  }
  imported.conversion = source->convert(*document);
  if (!common::has_errors(imported.conversion.problems)) finish(options, imported);
  return imported;
}

Imported import_command_line(const std::vector<std::string>& words, const NamedFiles& files,
                             const ImportOptions& options) {
  Imported imported;
  imported.conversion = convert_command_line(words, files);
  if (!common::has_errors(imported.conversion.problems)) finish(options, imported);
  return imported;
}

}  // namespace lockstep::convert

#include "runtime/train/export_verb.h"

#include <algorithm>
#include <filesystem>
#include <iostream>
#include <optional>
#include <span>
#include <system_error>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "runtime/checkpoint/reader.h"
#include "runtime/common/peft_config.h"
#include "runtime/hub/fetch_input.h"
#include "runtime/train/job_inputs.h"
#include "runtime/train/job_tokenizer.h"
#include "runtime/train/metrics_file.h"
#include "runtime/train/model_card.h"
#include "runtime/train/model_files.h"
#include "runtime/train/rank_ending.h"
#include "runtime/train/resume.h"
#include "runtime/train/run_error.h"

namespace lockstep::runtime {
namespace {

namespace fs = std::filesystem;
using common::ExitCode;
using common::FieldTexts;
using common::HubInput;
using common::Result;
using nlohmann::json;

constexpr int64_t kPieceElems = int64_t{1} << 20;

bool is_there(const std::string& path) {
  std::error_code unseen;
  return fs::exists(path, unseen);
}

template <typename T>
T of_checkpoint(Result<T> result) {
  if (!result) throw RunError(to_failure(exit_code_of_checkpoint(result.error()), result.error()));
  if constexpr (!std::is_void_v<T>) return std::move(result).value();
}

CheckpointReader open_source(const ExportVerbOptions& options) {
  const std::string& source = options.source;
  if (is_there(source + "/" + std::string(kManifestName))) {
    if (options.step > 0) refuse(source + " is a checkpoint: --step is of a run's output folder");
    return of_checkpoint(CheckpointReader::open(source));
  }
  if (options.step > 0) {
    return of_checkpoint(
        CheckpointReader::open(source + "/checkpoints/step-" + std::to_string(options.step)));
  }
  OpenedCheckpoint newest = of_checkpoint(open_newest(source));
  for (const SkippedCheckpoint& skipped : newest.skipped) {
    std::cerr << "warning: passed over a damaged checkpoint: " << skipped.reason.message << "\n";
  }
  return std::move(newest.reader);
}

// Paths that stand for references of `train` whose files the export takes over.
FieldTexts fetch_small_files(const json& train, const HubCommits& commits) {
  common::TrainConfig config = common::decode_train(train);
  config.model_source.is_pretrained = false;  // its weights are not needed
  const HubSession session = {
      .settings = value_or_raise(read_hub_settings(look_up_environment), ExitCode::kInvalidConfig),
      .stop = {}};
  FieldTexts places;
  for (const HubInput& input : common::hub_inputs(train)) {
    const bool is_taken_over =
        input.reference.kind == common::HubKind::kModel && input.field != "distill.teacher";
    if (!is_taken_over) continue;
    const auto value_of = [](auto result) {
      if (!result) throw RunError(to_failure(exit_code_of_hub(result.error()), result.error()));
      return std::move(result).value();
    };
    FetchProgress progress;
    const HubCommits found = value_of(find_commits(session, {input}, commits));
    const std::string& commit = found.at(repository_name(input.reference));
    places[input.field] = value_of(fetch_input(session, input, commit, config, progress)).place;
  }
  return places;
}

// `train` of a checkpoint with folders that are here.
json train_here(const ExportVerbOptions& options, const Manifest& manifest) {
  json train = json::parse(manifest.train_json);
  if (!train.contains(json::json_pointer("/model/config"))) {
    refuse("the checkpoint is of a custom loop: its own program knows the names of its tensors");
  }
  FieldTexts named;
  if (!options.model.empty()) named["model.path"] = options.model;
  if (!options.tokenizer.empty()) named["tokenizer.path"] = options.tokenizer;
  train = common::with_fields(train, named);
  if (common::hub_inputs(train).empty()) return train;
  return common::with_fields(train, fetch_small_files(train, manifest.hub_commits));
}

CarriedFiles carried_by(const common::TrainConfig& config) {
  Result<CarriedFiles> carried = read_carried_files(config);
  if (carried) return std::move(carried).value();
  common::Error error = carried.error();
  if (error.hint.empty()) {
    error.hint = "--model and --tokenizer name folders that stand for the job's";
  }
  throw RunError(to_failure(exit_code_of_tokenizer(error), error));
}

void require_units(const std::vector<Unit>& units, const Manifest& manifest) {
  const bool is_same =
      std::equal(units.begin(), units.end(), manifest.units.begin(), manifest.units.end(),
                 [](const Unit& unit, const ManifestUnit& saved) {
                   return unit.name == saved.name && unit.num_elems == saved.num_elems;
                 });
  if (is_same) return;
  throw RunError({ExitCode::kCheckpointDamaged,
                  "the units of the checkpoint are not those of the model that it names",
                  "export another checkpoint of the run"});
}

template <typename T>
T written(Result<T> result) {
  return value_or_raise(std::move(result), ExitCode::kOutputUnwritable);
}

// The weights of `units`, which are those of the checkpoint from `first_unit` on.
void copy_weights(const CheckpointReader& reader, int64_t first_unit, std::span<const Unit> units,
                  common::DType dtype, SafetensorsWriter& writer) {
  std::vector<float> piece;
  for (std::size_t unit = 0; unit < units.size(); ++unit) {
    const auto index = static_cast<int64_t>(unit);
    for (int64_t begin = 0; begin < units[unit].num_elems; begin += kPieceElems) {
      const int64_t count = std::min(kPieceElems, units[unit].num_elems - begin);
      piece.resize(static_cast<std::size_t>(count));
      of_checkpoint(reader.read_slice(first_unit + index, PieceKind::kWeights, begin, piece));
      written(write_weights(writer, dtype, index, begin, piece));
    }
  }
  written(writer.sync());
}

common::DType dtype_of(const ExportVerbOptions& options, const common::TrainConfig& config) {
  for (const common::DType dtype :
       {common::DType::kFp32, common::DType::kBf16, common::DType::kFp16}) {
    if (options.dtype == to_string(dtype)) return dtype;
  }
  return config.export_dtype;
}

std::optional<double> loss_at(const std::string& output, int64_t step) {
  for (const LossPoint& point : read_losses(output)) {
    if (point.step == step) return point.loss;
  }
  return std::nullopt;
}

int64_t num_elems_of(std::span<const Unit> units) {
  int64_t sum = 0;
  for (const Unit& unit : units) sum += unit.num_elems;
  return sum;
}

}  // namespace

std::string export_verb(const ExportVerbOptions& options) {
  const CheckpointReader reader = open_source(options);
  const Manifest& manifest = reader.manifest();
  const std::string output =
      options.output.empty() ? "model-step-" + std::to_string(manifest.step) : options.output;
  if (is_there(output)) refuse(output + " exists", "name another folder with --output");
  const common::TrainConfig config = common::decode_train(train_here(options, manifest));
  const CarriedFiles carried = carried_by(config);
  const std::vector<Unit> all = model_units(config.model, config.lora);
  require_units(all, manifest);
  const bool is_adapter = config.lora.is_on();  // a checkpoint of such has nothing else
  const std::size_t first = is_adapter ? model_units(config.model).size() : 0;
  const std::span<const Unit> units = std::span(all).subspan(first);

  const common::DType dtype = dtype_of(options, config);
  fs::path place = fs::absolute(output).lexically_normal();
  if (place.filename().empty()) place = place.parent_path();  // "folder/"
  const std::string folder = place.parent_path() / ("." + place.filename().string() + ".partial");
  const std::unique_ptr<Disk> disk = real_disk();
  written(disk->remove_tree(folder));
  written(disk->make_folder(folder));
  const char* const weights_file = is_adapter ? common::kAdapterWeightsFile : "model.safetensors";
  SafetensorsWriter writer = written(
      SafetensorsWriter::create(*disk, folder + "/" + weights_file, plan_model_file(units, dtype)));
  copy_weights(reader, static_cast<int64_t>(first), units, dtype, writer);
  written(writer.finish());
  written(is_adapter ? write_beside_adapters(*disk, folder, config, manifest.train_json, carried)
                     : write_beside_weights(*disk, folder, config.model, dtype, carried));
  const CardFacts facts = {.manifest = manifest,
                           .train = config,
                           .dtype = dtype,
                           .num_parameters = num_elems_of(units),
                           .loss = loss_at(reader.folder() + "/../..", manifest.step)};
  written(replace_file(*disk, folder, "README.md", model_card(facts)));
  written(disk->sync_folder(folder));
  written(disk->rename(folder, place.string()));
  written(disk->sync_folder(place.parent_path().string()));
  return output;
}

}  // namespace lockstep::runtime

#include "runtime/train/exporting.h"

#include <algorithm>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "runtime/checkpoint/safetensors.h"
#include "runtime/common/peft_config.h"
#include "runtime/parallel/shard_layout.h"
#include "runtime/train/exchange.h"
#include "runtime/train/job_tokenizer.h"
#include "runtime/train/merged_weights.h"
#include "runtime/train/model_files.h"

namespace lockstep::runtime {
namespace {

using common::ExitCode;
using common::kAdapterWeightsFile;
using common::Result;

constexpr std::size_t kPieceElems = std::size_t{1} << 20U;
constexpr const char* kWeightsFile = "model.safetensors";

// One safetensors file: units [first_unit, first_unit + units.size()) of the run.
struct ExportedFile {
  const char* name;
  std::span<const Unit> units;
  int64_t first_unit = 0;
  common::DType dtype = common::DType::kFp32;
};

// What the run exports, or before a merge the adapters alone.
ExportedFile trained_file(const RankState& s, common::DType dtype) {
  const std::span<const Unit> units = s.units;
  if (!s.config().lora.is_on()) return {.name = kWeightsFile, .units = units, .dtype = dtype};
  const int64_t first = s.num_model_units();
  return {.name = kAdapterWeightsFile,
          .units = units.subspan(static_cast<std::size_t>(first)),
          .first_unit = first,
          .dtype = dtype};
}

// Rank 0 starts from an empty folder: a crash may have left one.
Result<void> empty_folder(Disk& disk, const std::string& folder) {
  RETURN_IF_ERROR(disk.remove_tree(folder));
  return disk.make_folder(folder);
}

using WriteSlices = std::function<Result<void>(SafetensorsWriter&)>;

// Writes what this rank owns of the run's state.
WriteSlices from_state(const RankState& s, const ExportedFile& file) {
  return [&s, &file](SafetensorsWriter& writer) {
    Result<void> written;
    s.parallelism->visit_owned(StateAccess::kReadWeights, [&](const ParamShard& shard) {
      if (!written || shard.weights.empty()) return;
      written = write_weights(writer, file.dtype, shard.unit - file.first_unit, shard.begin_elem,
                              shard.weights);
    });
    return written;
  };
}

// Writes this rank's share of the model with the adapters of `folder` added to it.
WriteSlices from_merge(const RankState& s, const ExportedFile& file, const std::string& folder) {
  return [&s, &file, folder](SafetensorsWriter& writer) -> Result<void> {
    ASSIGN_OR_RETURN(const MergedWeights merged,
                     MergedWeights::open(*s.pretrained, folder, s.config().model, s.config().lora));
    std::vector<float> piece;
    for (std::size_t index = 0; index < file.units.size(); ++index) {
      const auto unit = static_cast<int64_t>(index);
      const ElemRange share =
          plan_unit(file.units[index].num_elems, s.env.world_size).slices(s.env.rank, 1);
      for (int64_t begin = share.begin_elem; begin < share.end_elem;) {
        const auto left = static_cast<std::size_t>(share.end_elem - begin);
        piece.resize(std::min(kPieceElems, left));
        RETURN_IF_ERROR(merged.read(unit, begin, piece));
        RETURN_IF_ERROR(write_weights(writer, file.dtype, unit, begin, piece));
        begin += static_cast<int64_t>(piece.size());
      }
    }
    return {};
  };
}

// All ranks write FOLDER/NAME; rank 0 empties the folder before if `is_first`.
void write_file(const RankState& s, Disk& disk, const std::string& folder, bool is_first,
                const ExportedFile& file, const WriteSlices& write) {
  const SafetensorsPlan plan = plan_model_file(file.units, file.dtype);
  const std::string path = folder + "/" + file.name;
  std::optional<SafetensorsWriter> writer;
  std::optional<RunFailure> failure;
  const auto keep = [&](Result<SafetensorsWriter> opened) {
    if (!opened) {
      failure = to_failure(ExitCode::kOutputUnwritable, opened.error());
      return;
    }
    writer.emplace(std::move(opened).value());
  };
  if (s.is_rank0()) {
    const Result<void> emptied = is_first ? empty_folder(disk, folder) : Result<void>();
    keep(emptied ? SafetensorsWriter::create(disk, path, plan) : emptied.error());
  }
  agree(*s.collective, failure, "creating the model file");
  if (!s.is_rank0()) keep(SafetensorsWriter::join(disk, path, plan));
  agree(*s.collective, failure, "opening the model file");
  Result<void> written = write(*writer);
  if (written) written = writer->sync();
  agree_on(*s.collective, std::move(written), ExitCode::kOutputUnwritable, "writing the model");
  Result<void> finished;
  if (s.is_rank0()) finished = writer->finish();
  agree_on(*s.collective, std::move(finished), ExitCode::kOutputUnwritable, "finishing the model");
}

Result<void> write_beside(const RankState& s, Disk& disk, const std::string& folder) {
  const common::TrainConfig& config = s.config();
  if (config.lora.is_on() && !config.lora.merge) {
    return write_beside_adapters(disk, folder, config, s.job.train_json, s.carried);
  }
  return write_beside_weights(disk, folder, config.model, config.export_dtype, s.carried);
}

// Rank 0: writes the rest and puts the folder in place of an earlier one.
Result<void> finish_folder(const RankState& s, Disk& disk, const std::string& folder,
                           const WriteRest& write_rest) {
  if (s.config().lora.merge) {
    RETURN_IF_ERROR(disk.remove_tree(folder + "/" + kAdapterWeightsFile));
  }
  RETURN_IF_ERROR(write_rest(folder));
  RETURN_IF_ERROR(disk.sync_folder(folder));
  RETURN_IF_ERROR(disk.remove_tree(s.env.output + "/model"));
  RETURN_IF_ERROR(disk.rename(folder, s.env.output + "/model"));
  return disk.sync_folder(s.env.output);
}

}  // namespace

void read_what_export_takes_over(RankState& s) {
  Result<CarriedFiles> carried = CarriedFiles();
  if (s.is_rank0() && s.config().export_at_end) carried = read_carried_files(s.config());
  const ExitCode code = carried ? ExitCode::kSucceeded : exit_code_of_tokenizer(carried.error());
  s.carried = agree_on(*s.collective, std::move(carried), code, "reading the tokenizer");
}

void export_model(RankState& s, Disk& disk) {
  export_model(s, disk, [&](const std::string& folder) { return write_beside(s, disk, folder); });
}

void export_model(RankState& s, Disk& disk, const WriteRest& write_rest) {
  const std::string folder = s.env.output + "/.model.partial";
  // A merge reads the adapters back, all of their digits: so nobody has to gather them.
  const bool merges = s.config().lora.is_on() && s.config().lora.merge;
  const common::DType dtype = s.config().export_dtype;
  const ExportedFile trained = trained_file(s, merges ? common::DType::kFp32 : dtype);
  write_file(s, disk, folder, /*is_first=*/true, trained, from_state(s, trained));
  if (merges) {
    const auto model = std::span(s.units).first(static_cast<std::size_t>(s.num_model_units()));
    const ExportedFile merged = {.name = kWeightsFile, .units = model, .dtype = dtype};
    write_file(s, disk, folder, /*is_first=*/false, merged, from_merge(s, merged, folder));
  }
  Result<void> finished;
  if (s.is_rank0()) finished = finish_folder(s, disk, folder, write_rest);
  agree_on(*s.collective, std::move(finished), ExitCode::kOutputUnwritable, "finishing the model");
}

}  // namespace lockstep::runtime

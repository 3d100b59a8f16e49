#include "runtime/train/exporting.h"

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "runtime/checkpoint/safetensors.h"
#include "runtime/common/config_json.h"
#include "runtime/kernels/elementwise.h"
#include "runtime/train/exchange.h"
#include "runtime/train/job_tokenizer.h"

namespace lockstep::runtime {
namespace {

using common::ExitCode;
using common::Result;

SafetensorsPlan plan_file(const std::vector<Unit>& units, common::DType dtype) {
  std::vector<UnitLayout> layouts;
  for (const Unit& unit : units) {
    UnitLayout layout{.num_elems = unit.num_elems};
    for (const UnitTensor& tensor : unit.tensors) {
      layout.tensors.push_back({.name = tensor.name,
                                .shape = tensor.shape,
                                .begin_elem = tensor.begin_elem,
                                .num_elems = tensor.num_elems});
    }
    layouts.push_back(std::move(layout));
  }
  return value_or_raise(plan_safetensors(layouts, dtype), ExitCode::kInternal);
}

// Rank 0 starts from an empty folder: a crash may have left one.
Result<SafetensorsWriter> create_file(Disk& disk, const std::string& folder,
                                      const SafetensorsPlan& plan) {
  RETURN_IF_ERROR(disk.remove_tree(folder));
  RETURN_IF_ERROR(disk.make_folder(folder));
  return SafetensorsWriter::create(disk, folder + "/model.safetensors", plan);
}

// The shard's weights, rounded to `dtype` from the masters a piece at a time.
Result<void> write_shard(common::DType dtype, const ParamShard& shard, SafetensorsWriter& writer) {
  if (dtype == common::DType::kFp32) {
    return writer.write_range(shard.unit, shard.begin_elem, std::as_bytes(shard.weights));
  }
  constexpr std::size_t kPieceElems = std::size_t{1} << 20U;
  std::vector<uint16_t> piece(std::min(kPieceElems, shard.weights.size()));
  for (std::size_t begin = 0; begin < shard.weights.size(); begin += kPieceElems) {
    const std::size_t count = std::min(kPieceElems, shard.weights.size() - begin);
    narrow(static_cast<int64_t>(count), shard.weights.data() + begin, {dtype, piece.data()});
    RETURN_IF_ERROR(writer.write_range(shard.unit, shard.begin_elem + static_cast<int64_t>(begin),
                                       std::as_bytes(std::span(piece).first(count))));
  }
  return {};
}

Result<void> write_slices(const RankState& s, SafetensorsWriter& writer) {
  Result<void> written;
  s.parallelism->visit_owned(StateAccess::kReadWeights, [&](const ParamShard& shard) {
    if (written) written = write_shard(s.config().export_dtype, shard, writer);
  });
  if (!written) return written;
  return writer.sync();
}

Result<void> write_config(const RankState& s, Disk& disk, const std::string& folder) {
  for (const auto& [name, text] : s.carried.files) {
    RETURN_IF_ERROR(replace_file(disk, folder, name, text));
  }
  return replace_file(
      disk, folder, "config.json",
      common::encode_config_json(s.config().model, s.config().export_dtype, s.carried.special_ids));
}

// Rank 0: names the file and puts the folder in place of an earlier one.
Result<void> finish_folder(const RankState& s, Disk& disk, const std::string& folder,
                           SafetensorsWriter& writer, const WriteRest& write_rest) {
  RETURN_IF_ERROR(writer.finish());
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
  export_model(s, disk, [&](const std::string& folder) { return write_config(s, disk, folder); });
}

void export_model(RankState& s, Disk& disk, const WriteRest& write_rest) {
  const SafetensorsPlan plan = plan_file(s.units, s.config().export_dtype);
  const std::string folder = s.env.output + "/.model.partial";
  const std::string file = folder + "/model.safetensors";
  std::optional<SafetensorsWriter> writer;
  std::optional<RunFailure> failure;
  const auto keep = [&](Result<SafetensorsWriter> opened) {
    if (!opened) {
      failure = to_failure(ExitCode::kOutputUnwritable, opened.error());
      return;
    }
    writer.emplace(std::move(opened).value());
  };
  if (s.is_rank0()) keep(create_file(disk, folder, plan));
  agree(*s.collective, failure, "creating the model file");
  if (!s.is_rank0()) keep(SafetensorsWriter::join(disk, file, plan));
  agree(*s.collective, failure, "opening the model file");
  agree_on(*s.collective, write_slices(s, *writer), ExitCode::kOutputUnwritable,
           "writing the model");
  Result<void> finished;
  if (s.is_rank0()) finished = finish_folder(s, disk, folder, *writer, write_rest);
  agree_on(*s.collective, std::move(finished), ExitCode::kOutputUnwritable, "finishing the model");
}

}  // namespace lockstep::runtime

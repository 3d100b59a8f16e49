// A small model in shards: values that tell step, unit, kind and element apart, saved by any number
// of ranks.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/checkpoint/manifest.h"
#include "runtime/checkpoint/reader.h"
#include "runtime/checkpoint/writer.h"
#include "tests/runtime/data/temp_folder.h"

namespace lockstep::runtime {

// More than one checksum block, less than a block, and fewer elements than there are ranks.
inline std::vector<ManifestUnit> test_units() {
  return {{"embedding", 150'001}, {"layer.0", 1000}, {"head", 3}};
}

inline std::vector<float> test_values(int64_t step, int64_t unit, PieceKind kind, int64_t elems) {
  std::vector<float> values;
  for (int64_t i = 0; i < elems; ++i) {
    values.push_back(static_cast<float>(i + 1000 * step + 7 * unit) *
                     (1.0F + static_cast<float>(kind)));
  }
  return values;
}

struct TestRange {
  int64_t begin = 0;
  int64_t end = 0;
};

// The slice of rank `rank` of `ranks` in a unit; uneven on purpose.
inline TestRange test_range(int64_t elems, int64_t rank, int64_t ranks) {
  return {elems * rank / ranks, elems * (rank + 1) / ranks};
}

inline Manifest test_manifest(int64_t step, int64_t attempt, int64_t ranks) {
  Manifest manifest;
  manifest.step = step;
  manifest.attempt = attempt;
  manifest.ranks = ranks;
  manifest.strategy = "zero3";
  manifest.seed = 42;
  manifest.global_batch_size = 8;
  manifest.samples_consumed = step * 8;
  manifest.train_json = R"({"optimizer":{"lr":0.0003},"steps":100})";
  manifest.corpus_fingerprint = "v1:1:2:3";
  manifest.units = test_units();
  return manifest;
}

// One rank's part of the model at one step.
class TestState {
 public:
  TestState(int64_t rank, int64_t ranks) : rank_(rank), ranks_(ranks) { set_step(0); }

  // What training does: other values in the same memory.
  void set_step(int64_t step) {
    const std::vector<ManifestUnit> units = test_units();
    storage_.resize(units.size() * 3);
    slices_.clear();
    for (std::size_t u = 0; u < units.size(); ++u) {
      const TestRange range = test_range(units[u].num_elems, rank_, ranks_);
      for (const PieceKind kind : {PieceKind::kWeights, PieceKind::kMoment1, PieceKind::kMoment2}) {
        const auto all = test_values(step, static_cast<int64_t>(u), kind, units[u].num_elems);
        storage_[3 * u + static_cast<std::size_t>(kind)].assign(all.begin() + range.begin,
                                                                all.begin() + range.end);
      }
      slices_.push_back({.unit = static_cast<int64_t>(u),
                         .begin_elem = range.begin,
                         .weights = storage_[3 * u],
                         .moment1 = storage_[3 * u + 1],
                         .moment2 = storage_[3 * u + 2]});
    }
  }
  std::span<const UnitSlice> slices() const { return slices_; }

 private:
  int64_t rank_;
  int64_t ranks_;
  std::vector<std::vector<float>> storage_;  // unit-major, three kinds each
  std::vector<UnitSlice> slices_;
};

constexpr std::string_view kTestRun = "tested";

// As if the output were prepared for the first attempt of kTestRun, unless it is for somebody.
inline void hold_for_test_run(const std::string& output) {
  const std::filesystem::path path = output + "/run.json";
  if (!std::filesystem::exists(path)) write_text(path, R"({"run":"tested","attempt":0})");
}

// One rank's part of a save.
inline common::Result<std::vector<Piece>> write_test_shards(Disk& disk, const ShardTarget& target,
                                                            int64_t ranks) {
  TestState state(target.rank, ranks);
  state.set_step(target.step);
  return write_shards(disk, target, state.slices());
}

// A whole save: every rank writes, rank 0 publishes.
inline common::Result<Published> save_test_model(Disk& disk, const std::string& output,
                                                 int64_t step, int64_t attempt, int64_t ranks,
                                                 int64_t keep,
                                                 const EvaluationHistory& evaluations = {}) {
  Manifest manifest = test_manifest(step, attempt, ranks);
  manifest.evaluations = evaluations;
  for (int64_t rank = 0; rank < ranks; ++rank) {
    const ShardTarget target{.output = output, .attempt = attempt, .step = step, .rank = rank};
    ASSIGN_OR_RETURN(const std::vector<Piece> written, write_test_shards(disk, target, ranks));
    ASSIGN_OR_RETURN(const std::vector<Piece> sent, decode_pieces(encode_pieces(written)));
    manifest.pieces.insert(manifest.pieces.end(), sent.begin(), sent.end());
  }
  hold_for_test_run(output);
  return publish(disk, output, std::string(kTestRun), manifest, keep);
}

// Reads everything as `ranks` ranks would, and says what differs from the values of the manifest's
// step.
inline common::Result<void> verify_test_model(const CheckpointReader& reader, int64_t ranks) {
  const std::vector<ManifestUnit> units = test_units();
  for (std::size_t u = 0; u < units.size(); ++u) {
    const auto unit = static_cast<int64_t>(u);
    for (const PieceKind kind : {PieceKind::kWeights, PieceKind::kMoment1, PieceKind::kMoment2}) {
      std::vector<float> values;
      for (int64_t rank = 0; rank < ranks; ++rank) {
        const TestRange range = test_range(units[u].num_elems, rank, ranks);
        std::vector<float> slice(static_cast<std::size_t>(range.end - range.begin), -1.0F);
        RETURN_IF_ERROR(reader.read_slice(unit, kind, range.begin, slice));
        values.insert(values.end(), slice.begin(), slice.end());
      }
      if (values != test_values(reader.manifest().step, unit, kind, units[u].num_elems)) {
        return common::Error{common::ErrorCode::kInternal, "wrong values in " + units[u].name, ""};
      }
    }
  }
  return {};
}

}  // namespace lockstep::runtime

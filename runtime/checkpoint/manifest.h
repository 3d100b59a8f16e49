// The manifest of a checkpoint: what was trained, up to where, and which bytes of which file hold
// which elements. A folder is a checkpoint if and only if it is named step-N and holds a manifest.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/common/result.h"

namespace lockstep::runtime {

inline constexpr int64_t kManifestVersion = 1;
inline constexpr std::string_view kManifestName = "manifest.json";

// Pieces are checksummed in blocks of this many bytes (the last is shorter), so that reading a
// slice verifies no more than it must. Part of the format.
inline constexpr int64_t kChecksumBlockBytes = 256 * 1024;

// Which moments there are is the optimizer's: two, one or none.
enum class PieceKind { kWeights, kMoment1, kMoment2 };
std::string_view to_string(PieceKind kind);

// Elements [begin_elem, begin_elem + num_elems) of one unit, fp32 little-endian, in one place of
// one file.
struct Piece {
  int64_t unit = 0;  // index in Manifest::units
  PieceKind kind = PieceKind::kWeights;
  int64_t begin_elem = 0;
  int64_t num_elems = 0;  // at least 1
  std::string file;       // plain name in the checkpoint's folder
  int64_t offset_bytes = 0;
  std::vector<uint32_t> block_crc32c;  // one per kChecksumBlockBytes
  bool operator==(const Piece&) const = default;
};

struct ManifestUnit {
  std::string name;
  int64_t num_elems = 0;
  bool is_frozen = false;  // it has weights, and no moments
  bool is_base = false;    // it has nothing: its weights are those of pretrained_fingerprint
  bool operator==(const ManifestUnit&) const = default;
};

// The scale of the loss for the next step of an fp16 run.
struct ManifestLossScale {
  double scale = 1;
  int64_t good_steps = 0;
  int64_t hysteresis = 1;
  bool operator==(const ManifestLossScale&) const = default;
};

// What the evaluations up to a step have told: all that early stopping and the choice of the best
// model need.
struct EvaluationHistory {
  int64_t last_step = 0;  // evaluated last; 0: none was
  double best_loss = 0;   // the lowest; means nothing without an evaluation
  // Of that loss, the earliest of equals; 0 if its checkpoint is not to be had.
  int64_t best_step = 0;
  int64_t without_better = 0;  // evaluations since
  bool keeps_best = false;     // pruning spares the checkpoint of best_step
  // Of the data that was evaluated on; empty in manifests that do not tell.
  std::string data_fingerprint;
  bool operator==(const EvaluationHistory&) const = default;
};

struct Manifest {
  int64_t step = 0;
  int64_t attempt = 0;
  int64_t ranks = 1;     // that wrote it; any number may read it
  std::string strategy;  // informational
  int64_t seed = 0;
  int64_t global_batch_size = 0;
  int64_t samples_consumed = 0;
  // Steps that were not finite: of the run, and in a row up to `step`. Absent in older manifests:
  // 0.
  int64_t skipped_steps = 0;
  int64_t consecutive_skips = 0;
  int64_t num_items = 0;  // of all steps, in a custom loop; absent and 0 in other runs
  std::optional<ManifestLossScale> loss_scale;  // of fp16 runs only
  EvaluationHistory evaluations;                // absent if there was none
  std::string train_json;                       // the normalised `spec.train`
  std::string corpus_fingerprint;
  std::string pretrained_fingerprint;  // of the first weights; empty and absent if random
  // The commits that inputs on the hub were, by "hf://ORG/NAME@REVISION"; absent if there were
  // none.
  std::map<std::string, std::string> hub_commits;
  std::vector<ManifestUnit> units;
  std::vector<Piece> pieces;  // of the weights and each kind kept, they tile every unit
  bool operator==(const Manifest&) const = default;
};

// Moments per weight that the checkpoint keeps: 0, 1 or 2.
int num_moments(const Manifest& manifest);

// kDataLoss, naming unit, kind and element, if the pieces do not tile every unit for the weights
// and every moment up to the last one kept (of a frozen unit, the weights and nothing else, of a
// base unit nothing), or if a piece is malformed (unknown unit, a file name with a slash, a wrong
// count of checksums).
common::Result<void> check_pieces(const Manifest& manifest);

// JSON text that carries its own checksum.
std::string encode(const Manifest& manifest);
// Errors: kDataLoss if the text is cut, changed or inconsistent; kInvalidArgument for a format
// version that this program does not know. `path` is named in messages.
common::Result<Manifest> decode_manifest(std::string_view text, const std::string& path);

// For the way of a rank's pieces to rank 0.
std::string encode_pieces(const std::vector<Piece>& pieces);
common::Result<std::vector<Piece>> decode_pieces(std::string_view text);

}  // namespace lockstep::runtime

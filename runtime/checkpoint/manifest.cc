#include "runtime/checkpoint/manifest.h"

#include <algorithm>
#include <cstddef>
#include <map>
#include <optional>
#include <span>
#include <utility>

#include <nlohmann/json.hpp>

#include "runtime/checkpoint/crc32c.h"

namespace lockstep::runtime {
namespace {

using common::Error;
using common::ErrorCode;
using common::Result;
using nlohmann::json;

constexpr int64_t kMaxElems = INT64_MAX / 64;  // byte offsets of any piece stay far from overflow

// The one spelling of a value, which checksums are taken of.
std::string canonical(const json& value) {
  return value.dump(-1, ' ', false, json::error_handler_t::replace);
}

std::string checksum_of(const std::string& text) {
  return crc32c_hex(std::as_bytes(std::span(text)));
}

std::optional<PieceKind> parse_kind(const std::string& name) {
  for (const PieceKind kind : {PieceKind::kWeights, PieceKind::kMoment1, PieceKind::kMoment2}) {
    if (name == to_string(kind)) return kind;
  }
  return std::nullopt;
}

json to_json(const std::vector<Piece>& pieces) {
  json list = json::array();
  for (const Piece& piece : pieces) {
    list.push_back({{"unit", piece.unit},
                    {"kind", to_string(piece.kind)},
                    {"beginElem", piece.begin_elem},
                    {"numElems", piece.num_elems},
                    {"file", piece.file},
                    {"offsetBytes", piece.offset_bytes},
                    {"blockCrc32c", piece.block_crc32c}});
  }
  return list;
}

// Throws json::exception where a field is missing or has another type.
std::vector<Piece> pieces_from_json(const json& list) {
  std::vector<Piece> pieces;
  for (const json& entry : list) {
    Piece piece;
    entry.at("unit").get_to(piece.unit);
    const std::optional<PieceKind> kind = parse_kind(entry.at("kind").get<std::string>());
    if (!kind) throw json::other_error::create(599, "unknown kind of piece", &entry);
    piece.kind = *kind;
    entry.at("beginElem").get_to(piece.begin_elem);
    entry.at("numElems").get_to(piece.num_elems);
    entry.at("file").get_to(piece.file);
    entry.at("offsetBytes").get_to(piece.offset_bytes);
    entry.at("blockCrc32c").get_to(piece.block_crc32c);
    pieces.push_back(std::move(piece));
  }
  return pieces;
}

json to_json(const Manifest& manifest) {
  json units = json::array();
  for (const ManifestUnit& unit : manifest.units) {
    json entry = {{"name", unit.name}, {"numElems", unit.num_elems}};
    if (unit.is_frozen) entry["frozen"] = true;
    if (unit.is_base) entry["base"] = true;
    units.push_back(std::move(entry));
  }
  json body = {{"version", kManifestVersion},
               {"step", manifest.step},
               {"attempt", manifest.attempt},
               {"ranks", manifest.ranks},
               {"strategy", manifest.strategy},
               {"seed", manifest.seed},
               {"globalBatchSize", manifest.global_batch_size},
               {"samplesConsumed", manifest.samples_consumed},
               {"skippedSteps", manifest.skipped_steps},
               {"consecutiveSkips", manifest.consecutive_skips},
               {"train", manifest.train_json},
               {"corpusFingerprint", manifest.corpus_fingerprint},
               {"units", std::move(units)},
               {"pieces", to_json(manifest.pieces)}};
  if (manifest.num_items > 0) body["items"] = manifest.num_items;
  if (!manifest.pretrained_fingerprint.empty()) {
    body["pretrainedFingerprint"] = manifest.pretrained_fingerprint;
  }
  if (!manifest.hub_commits.empty()) body["hubCommits"] = manifest.hub_commits;
  if (manifest.loss_scale) {
    body["lossScale"] = {{"scale", manifest.loss_scale->scale},
                         {"goodSteps", manifest.loss_scale->good_steps},
                         {"hysteresis", manifest.loss_scale->hysteresis}};
  }
  if (manifest.evaluations.last_step > 0) {
    body["evaluations"] = {{"lastStep", manifest.evaluations.last_step},
                           {"bestLoss", manifest.evaluations.best_loss},
                           {"bestStep", manifest.evaluations.best_step},
                           {"withoutBetter", manifest.evaluations.without_better},
                           {"keepsBest", manifest.evaluations.keeps_best},
                           {"dataFingerprint", manifest.evaluations.data_fingerprint}};
  }
  return body;
}

// Throws json::exception, as above.
Manifest from_json(const json& body) {
  Manifest manifest;
  body.at("step").get_to(manifest.step);
  body.at("attempt").get_to(manifest.attempt);
  body.at("ranks").get_to(manifest.ranks);
  body.at("strategy").get_to(manifest.strategy);
  body.at("seed").get_to(manifest.seed);
  body.at("globalBatchSize").get_to(manifest.global_batch_size);
  body.at("samplesConsumed").get_to(manifest.samples_consumed);
  manifest.skipped_steps = body.value("skippedSteps", int64_t{0});
  manifest.consecutive_skips = body.value("consecutiveSkips", int64_t{0});
  manifest.num_items = body.value("items", int64_t{0});
  if (const auto scale = body.find("lossScale"); scale != body.end()) {
    manifest.loss_scale = {.scale = scale->at("scale").get<double>(),
                           .good_steps = scale->at("goodSteps").get<int64_t>(),
                           .hysteresis = scale->at("hysteresis").get<int64_t>()};
  }
  if (const auto found = body.find("evaluations"); found != body.end()) {
    manifest.evaluations = {.last_step = found->at("lastStep").get<int64_t>(),
                            .best_loss = found->at("bestLoss").get<double>(),
                            .best_step = found->at("bestStep").get<int64_t>(),
                            .without_better = found->at("withoutBetter").get<int64_t>(),
                            .keeps_best = found->at("keepsBest").get<bool>(),
                            .data_fingerprint = found->value("dataFingerprint", std::string())};
  }
  body.at("train").get_to(manifest.train_json);
  body.at("corpusFingerprint").get_to(manifest.corpus_fingerprint);
  manifest.pretrained_fingerprint = body.value("pretrainedFingerprint", std::string());
  if (const auto commits = body.find("hubCommits"); commits != body.end()) {
    commits->get_to(manifest.hub_commits);
  }
  for (const json& unit : body.at("units")) {
    manifest.units.push_back({.name = unit.at("name").get<std::string>(),
                              .num_elems = unit.at("numElems").get<int64_t>(),
                              .is_frozen = unit.value("frozen", false),
                              .is_base = unit.value("base", false)});
  }
  manifest.pieces = pieces_from_json(body.at("pieces"));
  return manifest;
}

Error damaged_manifest(const std::string& path, const std::string& what) {
  return Error{ErrorCode::kDataLoss, "manifest " + path + " is damaged: " + what, ""};
}

std::string describe(const Piece& piece) {
  return "piece of unit " + std::to_string(piece.unit) + ", " + std::string(to_string(piece.kind)) +
         ", element " + std::to_string(piece.begin_elem);
}

Result<void> check_piece(const Piece& piece, const std::vector<ManifestUnit>& units) {
  const auto fail = [&](const std::string& what) {
    return Error{ErrorCode::kDataLoss, describe(piece) + ": " + what, ""};
  };
  if (piece.unit < 0 || piece.unit >= static_cast<int64_t>(units.size())) {
    return fail("there is no such unit");
  }
  const int64_t unit_elems = units[static_cast<std::size_t>(piece.unit)].num_elems;
  if (unit_elems < 0 || unit_elems > kMaxElems) return fail("the unit's size is impossible");
  if (piece.begin_elem < 0 || piece.num_elems < 1 || piece.num_elems > unit_elems ||
      piece.begin_elem > unit_elems - piece.num_elems) {
    return fail("it does not lie in its unit of " + std::to_string(unit_elems) + " elements");
  }
  if (piece.offset_bytes < 0 || piece.offset_bytes > kMaxElems) return fail("impossible offset");
  if (piece.file.empty() || piece.file.front() == '.' ||
      piece.file.find('/') != std::string::npos) {
    return fail("\"" + piece.file + "\" is not a plain file name");
  }
  const int64_t num_bytes = piece.num_elems * static_cast<int64_t>(sizeof(float));
  const int64_t num_blocks = (num_bytes + kChecksumBlockBytes - 1) / kChecksumBlockBytes;
  if (static_cast<int64_t>(piece.block_crc32c.size()) != num_blocks) {
    return fail("it needs " + std::to_string(num_blocks) + " checksums");
  }
  return {};
}

// `pieces` are those of one unit and kind.
Result<void> check_tiling(const std::string& where, int64_t unit_elems,
                          std::vector<const Piece*> pieces) {
  std::sort(pieces.begin(), pieces.end(),
            [](const Piece* a, const Piece* b) { return a->begin_elem < b->begin_elem; });
  int64_t covered = 0;
  for (const Piece* piece : pieces) {
    if (piece->begin_elem != covered) {
      const std::string what = piece->begin_elem > covered ? "gap" : "overlap";
      return Error{ErrorCode::kDataLoss,
                   what + " in " + where + " at element " +
                       std::to_string(std::min(covered, piece->begin_elem)),
                   ""};
    }
    covered += piece->num_elems;
  }
  if (covered != unit_elems) {
    return Error{ErrorCode::kDataLoss, "gap in " + where + " at element " + std::to_string(covered),
                 ""};
  }
  return {};
}

}  // namespace

std::string_view to_string(PieceKind kind) {
  switch (kind) {
    case PieceKind::kWeights:
      return "weights";
    case PieceKind::kMoment1:
      return "moment1";
    case PieceKind::kMoment2:
      return "moment2";
  }
  return "unknown";
}

int num_moments(const Manifest& manifest) {
  int moments = 0;
  for (const Piece& piece : manifest.pieces) {
    moments =
        std::max(moments, static_cast<int>(piece.kind) - static_cast<int>(PieceKind::kWeights));
  }
  return moments;
}

Result<void> check_pieces(const Manifest& manifest) {
  std::map<std::pair<int64_t, PieceKind>, std::vector<const Piece*>> groups;
  for (const Piece& piece : manifest.pieces) {
    RETURN_IF_ERROR(check_piece(piece, manifest.units));
    groups[{piece.unit, piece.kind}].push_back(&piece);
  }
  std::vector<PieceKind> kinds = {PieceKind::kWeights, PieceKind::kMoment1, PieceKind::kMoment2};
  kinds.resize(1 + static_cast<std::size_t>(num_moments(manifest)));
  for (std::size_t i = 0; i < manifest.units.size(); ++i) {
    const ManifestUnit& unit = manifest.units[i];
    for (const PieceKind kind : kinds) {
      const std::string where = "unit " + unit.name + ", " + std::string(to_string(kind));
      const bool is_absent = unit.is_base || (unit.is_frozen && kind != PieceKind::kWeights);
      RETURN_IF_ERROR(check_tiling(where, is_absent ? 0 : unit.num_elems,
                                   groups[{static_cast<int64_t>(i), kind}]));
    }
  }
  return {};
}

std::string encode(const Manifest& manifest) {
  const json body = to_json(manifest);
  return canonical({{"crc32c", checksum_of(canonical(body))}, {"manifest", body}}) + "\n";
}

Result<Manifest> decode_manifest(std::string_view text, const std::string& path) {
  const json envelope = json::parse(text, nullptr, false);
  if (envelope.is_discarded()) return damaged_manifest(path, "it is not complete JSON");
  try {
    const json& body = envelope.at("manifest");
    if (envelope.at("crc32c").get<std::string>() != checksum_of(canonical(body))) {
      return damaged_manifest(path, "its checksum does not match");
    }
    const auto version = body.at("version").get<int64_t>();
    if (version != kManifestVersion) {
      return Error{ErrorCode::kInvalidArgument,
                   path + " has format version " + std::to_string(version) +
                       ", this program knows version " + std::to_string(kManifestVersion),
                   "use the version of the program that wrote this checkpoint"};
    }
    Manifest manifest = from_json(body);
    if (const Result<void> checked = check_pieces(manifest); !checked) {
      return damaged_manifest(path, checked.error().message);
    }
    return manifest;
  } catch (const json::exception& failure) {
    return damaged_manifest(path, failure.what());
  }
}

std::string encode_pieces(const std::vector<Piece>& pieces) {
  return canonical(to_json(pieces));
}

Result<std::vector<Piece>> decode_pieces(std::string_view text) {
  try {
    return pieces_from_json(json::parse(text));
  } catch (const json::exception& failure) {
    return Error{ErrorCode::kInvalidArgument,
                 std::string("not a list of checkpoint pieces: ") + failure.what(), ""};
  }
}

}  // namespace lockstep::runtime

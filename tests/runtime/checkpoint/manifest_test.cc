#include "runtime/checkpoint/manifest.h"

#include <functional>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "runtime/checkpoint/crc32c.h"
#include "tests/runtime/checkpoint/test_model.h"

namespace lockstep::runtime {
namespace {

using common::ErrorCode;
using ::testing::HasSubstr;

// Two units of 10 and 70000 elements (the latter two checksum blocks), each in two pieces for each
// kind.
Manifest sound_manifest() {
  Manifest manifest = test_manifest(5, 2, 2);
  manifest.units = {{"a", 10}, {"b", 140'000}};
  int64_t offset = 0;
  for (int64_t unit = 0; unit < 2; ++unit) {
    const int64_t half = manifest.units[static_cast<std::size_t>(unit)].num_elems / 2;
    for (const PieceKind kind : {PieceKind::kWeights, PieceKind::kMoment1, PieceKind::kMoment2}) {
      for (const int64_t begin : {half, int64_t{0}}) {
        const auto num_blocks = static_cast<std::size_t>(half * 4 / kChecksumBlockBytes + 1);
        manifest.pieces.push_back(
            {unit, kind, begin, half, "rank-0.bin", offset, std::vector<uint32_t>(num_blocks, 9)});
        offset += half * 4;
      }
    }
  }
  return manifest;
}

TEST(ManifestTest, ComesBackFromItsText) {
  const Manifest manifest = sound_manifest();
  const auto decoded = decode_manifest(encode(manifest), "m");
  ASSERT_TRUE(decoded) << decoded.error().message;
  EXPECT_EQ(*decoded, manifest);
}

TEST(ManifestTest, KeepsTheCommitsOfInputsOnTheHub) {
  Manifest manifest = sound_manifest();
  EXPECT_THAT(encode(manifest), testing::Not(HasSubstr("hubCommits")));
  manifest.hub_commits = {{"hf://org/name@main", "0123456789abcdef0123456789abcdef01234567"}};
  EXPECT_EQ(*decode_manifest(encode(manifest), "m"), manifest);
}

TEST(ManifestTest, HoldsAsManyMomentsAsTheOptimizerKeeps) {
  Manifest manifest = sound_manifest();
  EXPECT_EQ(num_moments(manifest), 2);
  for (const PieceKind last : {PieceKind::kMoment2, PieceKind::kMoment1}) {
    std::erase_if(manifest.pieces, [last](const Piece& piece) { return piece.kind == last; });
    EXPECT_TRUE(check_pieces(manifest));
    EXPECT_EQ(num_moments(manifest), last == PieceKind::kMoment2 ? 1 : 0);
    EXPECT_EQ(*decode_manifest(encode(manifest), "m"), manifest);
  }
}

TEST(ManifestTest, AFrozenUnitHasWeightsAndNoMoments) {
  Manifest manifest = sound_manifest();
  manifest.units[0].is_frozen = true;
  ASSERT_FALSE(check_pieces(manifest));
  EXPECT_THAT(check_pieces(manifest).error().message, HasSubstr("in unit a, moment1"));
  std::erase_if(manifest.pieces, [](const Piece& piece) {
    return piece.unit == 0 && piece.kind != PieceKind::kWeights;
  });
  EXPECT_TRUE(check_pieces(manifest));
  EXPECT_EQ(*decode_manifest(encode(manifest), "m"), manifest);
  manifest.units[0].is_frozen = false;
  EXPECT_FALSE(check_pieces(manifest));
}

TEST(ManifestTest, ASecondMomentNeedsAFirst) {
  Manifest manifest = sound_manifest();
  std::erase_if(manifest.pieces,
                [](const Piece& piece) { return piece.kind == PieceKind::kMoment1; });
  ASSERT_FALSE(check_pieces(manifest));
  EXPECT_THAT(check_pieces(manifest).error().message, HasSubstr("gap in unit a, moment1"));
}

TEST(ManifestTest, SkipsAndLossScaleComeBackAndAreOptional) {
  Manifest manifest = sound_manifest();
  EXPECT_EQ(decode_manifest(encode(manifest), "m")->loss_scale, std::nullopt);
  manifest.skipped_steps = 3;
  manifest.consecutive_skips = 1;
  EXPECT_EQ(encode(manifest).find("items"), std::string::npos);
  manifest.num_items = 1 << 20;
  manifest.loss_scale = {.scale = 0x1p-3, .good_steps = 17, .hysteresis = 2};
  const auto decoded = decode_manifest(encode(manifest), "m");
  ASSERT_TRUE(decoded) << decoded.error().message;
  EXPECT_EQ(*decoded, manifest);

  // Written before there were any.
  nlohmann::json envelope = nlohmann::json::parse(encode(manifest));
  nlohmann::json& body = envelope["manifest"];
  for (const char* key : {"skippedSteps", "consecutiveSkips", "items", "lossScale"})
    body.erase(key);
  const std::string text = body.dump();
  char digits[9];
  std::snprintf(digits, sizeof digits, "%08x", crc32c(std::as_bytes(std::span(text))));
  envelope["crc32c"] = digits;
  const auto older = decode_manifest(envelope.dump(), "m");
  ASSERT_TRUE(older) << older.error().message;
  EXPECT_EQ(older->skipped_steps, 0);
  EXPECT_EQ(older->consecutive_skips, 0);
  EXPECT_EQ(older->num_items, 0);
  EXPECT_EQ(older->loss_scale, std::nullopt);
}

TEST(ManifestTest, EvaluationsComeBackAndAreOptional) {
  Manifest manifest = sound_manifest();
  EXPECT_EQ(encode(manifest).find("evaluations"), std::string::npos);
  manifest.evaluations = {.last_step = 50,
                          .best_loss = 3.1720468990000001,
                          .best_step = 40,
                          .without_better = 1,
                          .keeps_best = true,
                          .data_fingerprint = "v1:1:2:3"};
  const auto decoded = decode_manifest(encode(manifest), "m");
  ASSERT_TRUE(decoded) << decoded.error().message;
  EXPECT_EQ(*decoded, manifest);
}

TEST(ManifestTest, PiecesComeBackFromTheirText) {
  const Manifest manifest = sound_manifest();
  EXPECT_EQ(*decode_pieces(encode_pieces(manifest.pieces)), manifest.pieces);
  EXPECT_FALSE(decode_pieces("[{}]"));
  EXPECT_FALSE(decode_pieces("[1"));
}

TEST(ManifestTest, EveryTruncationIsDamage) {
  const std::string text = encode(sound_manifest());
  for (std::size_t length = 0; length + 1 < text.size(); ++length) {  // the last byte is a newline
    const auto decoded = decode_manifest(text.substr(0, length), "m");
    ASSERT_FALSE(decoded) << length;
    ASSERT_EQ(decoded.error().code, ErrorCode::kDataLoss) << length;
  }
}

TEST(ManifestTest, EveryFlippedBitIsDamageOrChangesNothing) {
  const Manifest manifest = sound_manifest();
  const std::string text = encode(manifest);
  int64_t num_harmless = 0;
  for (std::size_t bit = 0; bit < text.size() * 8; ++bit) {
    std::string changed = text;
    changed[bit / 8] = static_cast<char>(changed[bit / 8] ^ (1 << (bit % 8)));
    const auto decoded = decode_manifest(changed, "m");
    if (decoded) {
      ++num_harmless;
      ASSERT_EQ(*decoded, manifest) << bit;
    } else {
      ASSERT_EQ(decoded.error().code, ErrorCode::kDataLoss) << bit;
    }
  }
  EXPECT_LE(num_harmless, 8);  // at most the bits of the newline
}

TEST(ManifestTest, UnknownVersionIsRefusedAsSuch) {
  auto envelope = nlohmann::json::parse(encode(sound_manifest()));
  envelope["manifest"]["version"] = 2;
  const std::string body = envelope["manifest"].dump();
  char digits[9];
  std::snprintf(digits, sizeof digits, "%08x",
                crc32c(std::as_bytes(std::span(body.data(), body.size()))));
  envelope["crc32c"] = digits;
  const auto decoded = decode_manifest(envelope.dump(), "m");
  ASSERT_FALSE(decoded);
  EXPECT_EQ(decoded.error().code, ErrorCode::kInvalidArgument);
  EXPECT_THAT(decoded.error().message, HasSubstr("version 2"));
}

TEST(ManifestTest, MalformedPiecesAreRefusedWithTheReason) {
  struct Case {
    std::string reason;
    std::function<void(std::vector<Piece>&)> change;
  };
  const std::vector<Case> cases = {
      {"gap in unit a, weights at element 0", [](auto& p) { p.erase(p.begin() + 1); }},
      {"gap in unit a, weights at element 5", [](auto& p) { p.erase(p.begin()); }},
      {"gap in unit b, moment2", [](auto& p) { p.pop_back(); }},
      {"overlap in unit a, weights", [](auto& p) { p.push_back(p[0]); }},
      {"gap in unit a, weights at element 5",
       [](auto& p) {
         p[0].begin_elem = 6;
         p[0].num_elems = 4;
       }},
      {"overlap in unit a, weights at element 4",
       [](auto& p) {
         p[0].begin_elem = 4;
         p[0].num_elems = 6;
       }},
      {"no such unit", [](auto& p) { p[0].unit = 2; }},
      {"no such unit", [](auto& p) { p[0].unit = -1; }},
      {"does not lie", [](auto& p) { p[0].begin_elem = INT64_MAX; }},
      {"does not lie", [](auto& p) { p[0].begin_elem = -1; }},
      {"does not lie", [](auto& p) { p[0].num_elems = 0; }},
      {"does not lie", [](auto& p) { p[0].num_elems = INT64_MAX; }},
      {"offset", [](auto& p) { p[0].offset_bytes = -4; }},
      {"offset", [](auto& p) { p[0].offset_bytes = INT64_MAX; }},
      {"plain file name", [](auto& p) { p[0].file = "../x"; }},
      {"plain file name", [](auto& p) { p[0].file = ""; }},
      {"1 checksums", [](auto& p) { p[0].block_crc32c.push_back(1); }},
      {"2 checksums", [](auto& p) { p.back().block_crc32c.pop_back(); }},
  };
  for (const Case& example : cases) {
    Manifest manifest = sound_manifest();
    example.change(manifest.pieces);
    const auto checked = check_pieces(manifest);
    ASSERT_FALSE(checked) << example.reason;
    EXPECT_EQ(checked.error().code, ErrorCode::kDataLoss);
    EXPECT_THAT(checked.error().message, HasSubstr(example.reason));
    EXPECT_FALSE(decode_manifest(encode(manifest), "m")) << example.reason;
  }
}

}  // namespace
}  // namespace lockstep::runtime

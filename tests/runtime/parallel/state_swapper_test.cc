// Optimizer state in a swap file: the same bits as in memory, and what a failing disk does.
#include "runtime/parallel/state_swapper.h"

#include <filesystem>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runtime/common/choose_strategy.h"
#include "tests/runtime/comm/rank_threads.h"
#include "tests/runtime/parallel/equivalence.h"

namespace lockstep::runtime {
namespace {

using common::DType;
using common::Error;
using common::ErrorCode;
using common::ParallelismConfig;
using common::Result;
using common::Strategy;

// In memory, with bounds; the transfer number `fails_at` and all after it fail. -1: none does.
class FaultySwapFile final : public SwapFile {
 public:
  explicit FaultySwapFile(int64_t num_bytes, int fails_at = -1)
      : bytes_(static_cast<size_t>(num_bytes), std::byte{0xFF}), fails_at_(fails_at) {}

  Result<void> read(int64_t offset_bytes, std::span<std::byte> into) override {
    const auto from = place(offset_bytes, into.size());
    std::copy(from.begin(), from.end(), into.begin());
    return outcome();
  }
  Result<void> write(int64_t offset_bytes, std::span<const std::byte> from) override {
    std::copy(from.begin(), from.end(), place(offset_bytes, from.size()).begin());
    return outcome();
  }

 private:
  std::span<std::byte> place(int64_t offset_bytes, size_t num_bytes) {
    EXPECT_EQ(offset_bytes % kSwapBlockBytes, 0);
    EXPECT_EQ(num_bytes % kSwapBlockBytes, 0U);
    EXPECT_LE(static_cast<size_t>(offset_bytes) + num_bytes, bytes_.size());
    return std::span(bytes_).subspan(static_cast<size_t>(offset_bytes), num_bytes);
  }
  Result<void> outcome() {
    if (fails_at_ < 0 || num_transfers_++ < fails_at_) return {};
    return Error{ErrorCode::kUnavailable, "cannot write /nvme: No space left on device", ""};
  }

  std::vector<std::byte> bytes_;
  int fails_at_;
  int num_transfers_ = 0;
};

ParallelismOptions sizes_of(const SyntheticRun& run, const ParallelismConfig& config) {
  return {.config = config,
          .unit_elems = run.unit_elems,
          .frozen = run.frozen,
          .num_micro_batches = run.num_micro_batches,
          .num_moments = num_moments(run.optimizer),
          .dtype = run.dtype};
}

enum class Offload { kNone, kInMemory, kOnDisk };

SyntheticResult run_world(const SyntheticRun& run, const ParallelismConfig& config, int world_size,
                          Offload offload) {
  const auto ranks = make_local_world(world_size);
  SyntheticResult result = empty_result(run);
  std::mutex mutex;
  run_ranks(world_size, [&](int rank) {
    const int64_t num_bytes = offloaded_bytes(sizes_of(run, config), rank, world_size);
    std::unique_ptr<SwapFile> file;
    if (offload == Offload::kInMemory) file = std::make_unique<FaultySwapFile>(num_bytes);
    if (offload == Offload::kOnDisk) {
      auto created = create_swap_file(std::filesystem::temp_directory_path(), num_bytes);
      ASSERT_TRUE(created) << created.error().message;
      file = std::move(created->file);
    }
    run_rank(run, config, *ranks[static_cast<size_t>(rank)], result, mutex, std::move(file));
  });
  return result;
}

// Pieces of one norm chunk, so that units are cut into several; SGD has one moment, a frozen unit
// none.
TEST(StateSwapperTest, GivesTheBitsOfStateInMemory) {
  using Kind = common::OptimizerConfig::Kind;
  for (const DType dtype : {DType::kFp32, DType::kBf16}) {
    for (const Kind kind : {Kind::kAdamW, Kind::kSgd}) {
      SyntheticRun run = {.optimizer = {.kind = kind, .momentum = 0.9}, .dtype = dtype};
      if (kind == Kind::kSgd) run.frozen = {true, false, true, false};
      const SyntheticResult expected = run_world(run, {.strategy = Strategy::kDdp}, 1, {});
      for (const Strategy strategy :
           {Strategy::kDdp, Strategy::kZero1, Strategy::kZero2, Strategy::kZero3}) {
        for (const int ranks : {1, 3}) {
          EXPECT_EQ(run_world(run, {.strategy = strategy}, ranks, Offload::kInMemory), expected)
              << to_string(strategy) << " on " << ranks << ", " << to_string(dtype);
        }
      }
      EXPECT_EQ(
          run_world(run, {.strategy = Strategy::kZero3, .shard_ranks = 2}, 4, Offload::kOnDisk),
          expected);
    }
  }
}

TEST(StateSwapperTest, AFailingTransferEndsTheVisitWithItsReason) {
  const auto world = make_local_world(1);
  const ParallelismOptions options = {.config = {.strategy = Strategy::kZero1},
                                      .unit_elems = {5000, 3000},
                                      .num_micro_batches = 1,
                                      .swap_piece_elems = kNormChunkElems};
  constexpr int kTransfersOfAFill = 2 * 8;  // two moments of eight pieces
  int num_pieces = 0;
  for (const int fails_at : {0, 5, kTransfersOfAFill, kTransfersOfAFill + 7}) {
    const auto parallelism = make_parallelism(
        options, *world[0],
        std::make_unique<FaultySwapFile>(offloaded_bytes(options, 0, 1), fails_at));
    const auto visit = [&](StateAccess access) {
      num_pieces = 0;
      parallelism->visit_shards(access, [&](const ParamShard&) { ++num_pieces; });
    };
    try {
      visit(StateAccess::kFill);
      EXPECT_EQ(num_pieces, 8);
      EXPECT_GE(fails_at, kTransfersOfAFill);
      visit(StateAccess::kUpdate);
      ADD_FAILURE() << "transfer " << fails_at << " did not fail";
    } catch (const OffloadError& error) {
      EXPECT_STREQ(error.what(), "train.offload: cannot write /nvme: No space left on device");
      EXPECT_LT(num_pieces, 8);
    }
  }
}

TEST(StateSwapperTest, WhatTheUserOfAPieceThrowsPassesThrough) {
  const auto world = make_local_world(1);
  const ParallelismOptions options = {.config = {.strategy = Strategy::kDdp},
                                      .unit_elems = {5000},
                                      .num_micro_batches = 1,
                                      .swap_piece_elems = kNormChunkElems};
  const auto parallelism = make_parallelism(
      options, *world[0], std::make_unique<FaultySwapFile>(offloaded_bytes(options, 0, 1)));
  EXPECT_THROW(parallelism->visit_shards(
                   StateAccess::kFill, [](const ParamShard&) { throw std::runtime_error("mine"); }),
               std::runtime_error);
  int num_pieces = 0;
  parallelism->visit_shards(StateAccess::kFill, [&](const ParamShard&) { ++num_pieces; });
  EXPECT_EQ(num_pieces, 5) << "it can be visited again";
}

}  // namespace
}  // namespace lockstep::runtime

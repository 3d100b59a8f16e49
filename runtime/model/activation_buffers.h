// The buffers of a micro-batch: what each block reads, writes and saves, and where.
//
// Note [Records and windows]
// What a block finds again in backward is its record: its input and what it saved, less what
// activation checkpointing computes again. Block 0 has none. With offload, records have three
// windows in memory: block i has window (i - 1) mod 3 and writes its output into the next one's
// input, so the third is free for a transfer. Forward writes record i out while block i + 1 runs;
// the last three stay, since backward begins with them. When backward of block i is done, record
// i - 3 is read into its window, and has two blocks' time to arrive.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "runtime/common/train_config.h"
#include "runtime/kernels/float_buffer.h"
#include "runtime/model/block.h"
#include "runtime/model/saved_store.h"

namespace lockstep::runtime {

inline constexpr int64_t kActivationWindows = 3;

// The records that leave memory, numbered from 0 (block 1's) on.
int64_t num_stored_records(int64_t num_blocks);
// The record to write after a block's forward, and to read after its backward; -1: none.
int64_t written_after_forward(int64_t block, int64_t num_blocks);
int64_t read_after_backward(int64_t block);

struct ActivationSizes {
  std::vector<SavedElems> saved;  // [block]
  int64_t stream_elems = 0;       // rows * hidden: a block's input, output and their gradient
  int64_t scratch_elems = 0;      // of the block that needs most; blocks run one at a time
};

class ActivationBuffers {
 public:
  // Throws std::bad_alloc.
  //   offloads: records have windows only, and need a store before the first forward.
  ActivationBuffers(const ActivationSizes& sizes, common::ActivationCheckpointing checkpointing,
                    bool offloads);

  BlockBuffers of(int64_t block) const;
  int64_t num_bytes() const { return static_cast<int64_t>(floats_.num_bytes()); }

  // Of what a store must hold; 0 unless records are offloaded.
  int64_t num_records() const { return offloads_ ? num_stored_records(num_blocks_) : 0; }
  int64_t record_bytes() const { return record_elems_ * static_cast<int64_t>(sizeof(float)); }
  void store_in(std::unique_ptr<SavedStore> store) { store_ = std::move(store); }

  // To be called around every block; without a store they do nothing.
  void before_forward(int64_t block);
  void after_forward(int64_t block);
  void after_backward(int64_t block);

 private:
  // Gives records their windows, at the begin of the floats; returns the elements of those.
  //   most: of any block; 0 for what all blocks share.
  int64_t place_windows(int64_t stream_elems, const SavedElems& most);
  float* base() const;
  std::span<std::byte> window_of(int64_t block) const;

  int64_t num_blocks_;
  bool offloads_;
  int64_t record_elems_ = 0;
  // Offsets in the floats, by block; equal for all blocks where one buffer is shared.
  std::vector<int64_t> x_;
  std::vector<int64_t> dear_;
  std::vector<int64_t> cheap_;
  int64_t scratch_ = 0;
  int64_t gradient_ = 0;  // [rows, hidden]: dy on the way in, dx on the way out, of every block
  FloatBuffer floats_;
  std::unique_ptr<SavedStore> store_;  // last: it may be at work on the floats
};

}  // namespace lockstep::runtime

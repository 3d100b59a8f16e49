// Optimizer state that lives in a swap file: moments, and masters where the model computes with
// copies. It comes into memory a piece at a time, when the optimizer, a checkpoint or an export
// asks for it.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "runtime/checkpoint/disk_thread.h"
#include "runtime/kernels/float_buffer.h"
#include "runtime/offload/swap_file.h"
#include "runtime/offload/swap_turns.h"
#include "runtime/optim/param_shard.h"
#include "runtime/parallel/parallelism.h"
#include "runtime/parallel/shard_layout.h"

namespace lockstep::runtime {

// What of one unit is in the file: [kinds][kept elements], moments first, then masters.
struct StoredUnit {
  ElemRange kept;  // of the unit, padding included: whole norm chunks
  int num_moments = 0;
  bool has_masters = false;
  int64_t begin_byte = 0;  // in the file

  int num_kinds() const { return num_moments + (has_masters ? 1 : 0); }
};

// Puts the units one after the other; returns the bytes that the file needs.
int64_t place_stored_units(std::span<StoredUnit> units);

// The part of a unit that a visit goes over, and what of it is in memory: a ParamShard whose spans
// of stored kinds are empty.
struct VisitedShard {
  ParamShard resident;
  int64_t num_elems = 0;
};

class StateSwapper {
 public:
  // Elements of a piece. It is no part of the arithmetic: an optimizer works element by element.
  static constexpr int64_t kPieceElems = int64_t{1} << 20;

  // Allocates two windows of one piece. Throws std::bad_alloc.
  //   units: after place_stored_units().
  //   piece_elems: whole norm chunks.
  StateSwapper(std::unique_ptr<SwapFile> file, std::vector<StoredUnit> units, int64_t piece_elems);

  // Calls `use` with piece after piece of `shards`, all of their state in memory, while a thread
  // reads the next and writes the one before. Throws OffloadError if a transfer fails, and what
  // `use` throws; what the file holds is then unspecified.
  void visit(std::span<const VisitedShard> shards, StateAccess access, const UseShard& use);

 private:
  // Elements [begin_elem, begin_elem + num_elems) of a shard.
  struct Piece {
    const VisitedShard* shard = nullptr;
    int64_t begin_elem = 0;  // in the unit
    int64_t num_elems = 0;
  };

  std::vector<Piece> cut(std::span<const VisitedShard> shards, StateAccess access) const;
  ParamShard in_memory(const Piece& piece, int64_t window, StateAccess access) const;
  // Where kind `kind` of a piece is in memory: [num_elems], and up to a chunk's end after it.
  std::span<float> place(int64_t window, int kind, int64_t num_elems) const;
  // On the disk thread.
  common::Result<void> move(const Piece& piece, int64_t window, StateAccess access, bool writes);

  std::unique_ptr<SwapFile> file_;
  const std::vector<StoredUnit> units_;
  int64_t piece_elems_;
  std::array<FloatBuffer, kSwapWindows> windows_;
  DiskThread thread_{"lockstep-swap"};  // last: it ends before what its jobs use
};

}  // namespace lockstep::runtime

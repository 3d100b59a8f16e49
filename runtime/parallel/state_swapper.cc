#include "runtime/parallel/state_swapper.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "runtime/kernels/elementwise.h"

namespace lockstep::runtime {
namespace {

using common::Result;

constexpr int64_t kFloatBytes = sizeof(float);
constexpr int64_t kBlockElems = kSwapBlockBytes / kFloatBytes;
// A slice begins and ends at a norm chunk, hence at a block.
static_assert(kNormChunkElems % kBlockElems == 0);

int64_t whole_blocks(int64_t num_elems) {
  return (num_elems + kBlockElems - 1) / kBlockElems * kBlockElems;
}

int64_t most_elems(std::span<const StoredUnit> units) {
  int64_t most = 0;
  for (const StoredUnit& unit : units) {
    if (unit.num_kinds() > 0) most = std::max(most, unit.kept.num_elems());
  }
  return most;
}

int most_kinds(std::span<const StoredUnit> units) {
  int most = 0;
  for (const StoredUnit& unit : units) most = std::max(most, unit.num_kinds());
  return most;
}

bool reads(StateAccess access) {
  return access != StateAccess::kFill;
}

bool writes(StateAccess access) {
  return access == StateAccess::kFill || access == StateAccess::kUpdate;
}

// Part of a span of a whole shard; an empty one stays empty.
std::span<float> part(std::span<float> whole, int64_t begin_elem, int64_t num_elems) {
  if (whole.empty()) return {};
  return whole.subspan(static_cast<size_t>(begin_elem), static_cast<size_t>(num_elems));
}

}  // namespace

int64_t place_stored_units(std::span<StoredUnit> units) {
  int64_t end_byte = 0;
  for (StoredUnit& unit : units) {
    unit.begin_byte = end_byte;
    end_byte += unit.num_kinds() * unit.kept.num_elems() * kFloatBytes;
  }
  return end_byte;
}

StateSwapper::StateSwapper(std::unique_ptr<SwapFile> file, std::vector<StoredUnit> units,
                           int64_t piece_elems)
    : file_(std::move(file)),
      units_(std::move(units)),
      piece_elems_(std::min(piece_elems, most_elems(units_))) {
  for (FloatBuffer& window : windows_) {
    window = FloatBuffer(most_kinds(units_) * piece_elems_ + kBlockElems);  // to align it
  }
}

std::vector<StateSwapper::Piece> StateSwapper::cut(std::span<const VisitedShard> shards,
                                                   StateAccess access) const {
  std::vector<Piece> pieces;
  for (const VisitedShard& shard : shards) {
    // A frozen unit has no gradient, hence nothing to update.
    if (access == StateAccess::kUpdate && shard.resident.gradient.empty()) continue;
    const int64_t begin = shard.resident.begin_elem;
    for (int64_t done = 0; done < shard.num_elems; done += piece_elems_) {
      pieces.push_back({&shard, begin + done, std::min(piece_elems_, shard.num_elems - done)});
    }
  }
  return pieces;
}

std::span<float> StateSwapper::place(int64_t window, int kind, int64_t num_elems) const {
  const FloatBuffer& buffer = windows_[static_cast<size_t>(window)];
  const auto address = reinterpret_cast<uintptr_t>(buffer.data());
  const auto past = static_cast<int64_t>(address % kSwapBlockBytes);
  const int64_t skipped = past == 0 ? 0 : (kSwapBlockBytes - past) / kFloatBytes;
  return buffer.elems().subspan(static_cast<size_t>(skipped + kind * piece_elems_),
                                static_cast<size_t>(num_elems));
}

ParamShard StateSwapper::in_memory(const Piece& piece, int64_t window, StateAccess access) const {
  const ParamShard& resident = piece.shard->resident;
  const StoredUnit& unit = units_[static_cast<size_t>(resident.unit)];
  const int64_t skipped = piece.begin_elem - resident.begin_elem;
  ParamShard shard = {.unit = resident.unit,
                      .begin_elem = piece.begin_elem,
                      .weights = part(resident.weights, skipped, piece.num_elems),
                      .gradient = part(resident.gradient, skipped, piece.num_elems),
                      .moment1 = {},
                      .moment2 = {}};
  if (unit.has_masters) shard.weights = place(window, unit.num_moments, piece.num_elems);
  if (access == StateAccess::kReadWeights) return shard;
  if (unit.num_moments >= 1) shard.moment1 = place(window, 0, piece.num_elems);
  if (unit.num_moments >= 2) shard.moment2 = place(window, 1, piece.num_elems);
  return shard;
}

Result<void> StateSwapper::move(const Piece& piece, int64_t window, StateAccess access,
                                bool writes) {
  const StoredUnit& unit = units_[static_cast<size_t>(piece.shard->resident.unit)];
  const int first = access == StateAccess::kReadWeights ? unit.num_moments : 0;
  for (int kind = first; kind < unit.num_kinds(); ++kind) {
    const int64_t offset_elems =
        kind * unit.kept.num_elems() + piece.begin_elem - unit.kept.begin_elem;
    const int64_t offset_bytes = unit.begin_byte + offset_elems * kFloatBytes;
    const std::span<float> floats = place(window, kind, whole_blocks(piece.num_elems));
    RETURN_IF_ERROR(writes ? file_->write(offset_bytes, std::as_bytes(floats))
                           : file_->read(offset_bytes, std::as_writable_bytes(floats)));
  }
  return {};
}

void StateSwapper::visit(std::span<const VisitedShard> shards, StateAccess access,
                         const UseShard& use) {
  const std::vector<Piece> pieces = cut(shards, access);
  const auto piece_of = [&](int64_t index) { return pieces[static_cast<size_t>(index)]; };
  for (const SwapTurn& turn :
       plan_swaps(static_cast<int64_t>(pieces.size()), reads(access), writes(access))) {
    thread_.start([&]() -> Result<void> {
      if (turn.written >= 0) {
        const int64_t window = window_of(turn.written);
        RETURN_IF_ERROR(move(piece_of(turn.written), window, access, true));
      }
      if (turn.read < 0) return {};
      return move(piece_of(turn.read), window_of(turn.read), access, false);
    });
    try {
      if (turn.used >= 0) use(in_memory(piece_of(turn.used), window_of(turn.used), access));
    } catch (...) {
      static_cast<void>(thread_.await());  // it works on what is about to go
      throw;
    }
    const Result<void> moved = thread_.await();
    if (!moved) throw OffloadError(moved.error());
  }
}

}  // namespace lockstep::runtime

// The training state of one unit as a rank holds it: whole, or the part that its strategy leaves.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "runtime/kernels/float_buffer.h"
#include "runtime/kernels/typed_values.h"
#include "runtime/parallel/shard_layout.h"

namespace lockstep::runtime {

// Elements [begin_elem, begin_elem + values.num_elems()) of a unit, padding included.
struct UnitPart {
  int64_t begin_elem = 0;
  FloatBuffer values;

  // A view of `range`, which lies in the part; an empty one of a part without values. Stays valid
  // when `values` is moved.
  std::span<float> view(const ElemRange& range) const {
    if (values.num_elems() == 0) return {};
    return values.elems().subspan(static_cast<size_t>(range.begin_elem - begin_elem),
                                  static_cast<size_t>(range.num_elems()));
  }
};

// What a data-parallel strategy shards over the ranks; the rest every rank has whole.
//   ddp: nothing; zero1: moments; zero2: and gradients; zero3: and weights.
struct Sharding {
  bool moments = false;
  bool gradients = false;
  bool weights = false;
};

struct UnitStorageOptions {
  Sharding sharding;
  int num_moments = 2;  // of the optimizer
  Placement placement;
  DType dtype = DType::kFp32;  // of the computation
  bool is_frozen = false;      // there is no gradient and no moment
  bool is_base = false;        // and no master beside a compute copy: see Note [Base units]
  bool is_offloaded = false;   // what the optimizer alone needs is elsewhere: see StateSwapper
};

// Note [Compute copies]
// In bf16 and fp16 a unit has a rounded copy of its weights, which the model computes with and
// which is gathered, at half the bytes. The fp32 masters are then the optimizer's alone: a rank
// that updates slices has the masters of those only, also under zero1 and zero2.

// Note [Base units]
// The weights that adapters are trained beside never change and can be had again where they came
// from. So they are no state: of a base unit a rank has what it computes with and nothing else, no
// master of a rounded copy, no place in a swap file, a checkpoint or an export of adapters. Every
// rank fills its own part, Parallelism::fill_base().

// Zeroed buffers of one unit. A moment that the optimizer does not have is empty, and so is what is
// offloaded.
struct UnitStorage {
  UnitStorage(const UnitSlices& layout, const UnitStorageOptions& options);

  // What the model computes with: the copy, or in fp32 the weights themselves.
  std::span<std::byte> compute_bytes() const;
  // Rounds the weights that this rank updates into the copy; nothing in fp32, and nothing if they
  // are offloaded.
  void update_copy() const;
  // Rounds `masters`, elements from begin_elem of the unit on in the device's memory, into the
  // copy.
  void update_copy(int64_t begin_elem, std::span<const float> masters) const;

  // Writes `floats`, which are in the device's memory, as elements from begin_elem on of what the
  // model computes with.
  void fill(int64_t begin_elem, std::span<const float> floats) const;

  UnitPart weights;
  UnitPart gradient;
  UnitPart moment1;
  UnitPart moment2;

 private:
  DType dtype_;
  FloatBuffer copy_;  // of 16-bit elements, sharded as Sharding::weights says; empty in fp32
  int64_t copy_begin_elem_ = 0;  // in the unit
};

}  // namespace lockstep::runtime

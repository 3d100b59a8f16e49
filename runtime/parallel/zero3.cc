#include "runtime/parallel/zero3.h"

#include <bit>
#include <utility>

#include "runtime/kernels/float_buffer.h"
#include "runtime/parallel/gradient_reducer.h"
#include "runtime/parallel/shard_layout.h"
#include "runtime/parallel/unit_gatherer.h"

namespace lockstep::runtime {
namespace {

// This rank's slice of one unit, padded; see Note [Padding of the last shard] in shard_layout.h.
struct SliceStorage {
  explicit SliceStorage(const UnitSlices& layout)
      : weights(layout.slice_elems),
        gradient(layout.slice_elems),
        moment1(layout.slice_elems),
        moment2(layout.slice_elems) {}

  FloatBuffer weights, gradient, moment1, moment2;
};

std::vector<SliceStorage> allocate(const std::vector<UnitSlices>& layouts) {
  std::vector<SliceStorage> storage;
  storage.reserve(layouts.size());
  for (const UnitSlices& layout : layouts) storage.emplace_back(layout);
  return storage;
}

std::vector<std::span<const float>> weight_slices(const std::vector<SliceStorage>& storage) {
  std::vector<std::span<const float>> slices;
  slices.reserve(storage.size());
  for (const SliceStorage& slice : storage) slices.push_back(slice.weights.elems());
  return slices;
}

std::vector<std::span<float>> gradient_slices(const std::vector<SliceStorage>& storage) {
  std::vector<std::span<float>> slices;
  slices.reserve(storage.size());
  for (const SliceStorage& slice : storage) slices.push_back(slice.gradient.elems());
  return slices;
}

// See Note [The tree] in reduction_tree.h.
Assignment assignment_for(int world_size) {
  return std::has_single_bit(static_cast<unsigned>(world_size)) ? Assignment::kInterleaved
                                                                : Assignment::kContiguous;
}

class Zero3 final : public Parallelism {
 public:
  Zero3(const std::vector<UnitSlices>& layouts, int64_t num_micro_batches, Collective& collective)
      : rank_(collective.rank()),
        storage_(allocate(layouts)),
        gatherer_(collective, layouts, weight_slices(storage_)),
        reducer_(collective,
                 plan_reduction(num_micro_batches, collective.world_size(),
                                assignment_for(collective.world_size())),
                 layouts, gradient_slices(storage_), [](int64_t) {}) {
    for (size_t index = 0; index < layouts.size(); ++index) {
      const ElemRange range = layouts[index].owned(rank_);
      const auto cut = [&range](const FloatBuffer& buffer) {
        return buffer.elems().first(static_cast<size_t>(range.num_elems()));
      };
      const SliceStorage& slice = storage_[index];
      shards_.push_back({static_cast<int64_t>(index), range.begin_elem, cut(slice.weights),
                         cut(slice.gradient), cut(slice.moment1), cut(slice.moment2)});
    }
  }

  const std::vector<int64_t>& micro_batches() const override {
    return reducer_.plan().micro_batches[static_cast<size_t>(rank_)];
  }

  const float* unshard(int64_t unit, int64_t next) override {
    return gatherer_.acquire(unit, next);
  }
  void reshard(int64_t unit) override { gatherer_.release(unit); }

  float* gradient_buffer(int64_t unit) override { return reducer_.buffer(unit); }
  void gradient_ready(int64_t unit) override { reducer_.ready(unit); }

  void finish_backward() override {
    reducer_.finish();
    gatherer_.invalidate();  // the optimizer changes the slices next
  }

  std::span<const ParamShard> shards() const override { return shards_; }
  std::span<const ParamShard> owned() const override { return shards_; }

 private:
  int rank_;
  std::vector<SliceStorage> storage_;
  UnitGatherer gatherer_;
  GradientReducer reducer_;
  std::vector<ParamShard> shards_;
};

}  // namespace

std::unique_ptr<Parallelism> make_zero3(const std::vector<int64_t>& unit_elems,
                                        int64_t num_micro_batches, Collective& collective) {
  return std::make_unique<Zero3>(plan_units(unit_elems, collective.world_size()), num_micro_batches,
                                 collective);
}

}  // namespace lockstep::runtime

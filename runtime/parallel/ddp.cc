#include "runtime/parallel/ddp.h"

#include <string>
#include <utility>

#include "runtime/kernels/float_buffer.h"
#include "runtime/parallel/gradient_reducer.h"
#include "runtime/parallel/shard_layout.h"

namespace lockstep::runtime {
namespace {

// Full buffers of one unit, padded; see Note [Padding of the last shard] in shard_layout.h.
struct UnitStorage {
  explicit UnitStorage(const UnitSlices& layout)
      : weights(layout.padded_elems),
        gradient(layout.padded_elems),
        moment1(layout.padded_elems),
        moment2(layout.padded_elems) {}

  ParamShard shard(int64_t unit, const ElemRange& range) const {
    const auto cut = [&range](const FloatBuffer& buffer) {
      return buffer.elems().subspan(static_cast<size_t>(range.begin_elem),
                                    static_cast<size_t>(range.num_elems()));
    };
    return {unit, range.begin_elem, cut(weights), cut(gradient), cut(moment1), cut(moment2)};
  }

  FloatBuffer weights, gradient, moment1, moment2;
};

std::vector<UnitStorage> allocate(const std::vector<UnitSlices>& layouts) {
  std::vector<UnitStorage> storage;
  storage.reserve(layouts.size());
  for (const UnitSlices& layout : layouts) storage.emplace_back(layout);
  return storage;
}

std::vector<std::span<float>> own_slices(const std::vector<UnitStorage>& storage,
                                         const std::vector<UnitSlices>& layouts, int rank) {
  std::vector<std::span<float>> slices;
  for (size_t unit = 0; unit < layouts.size(); ++unit) {
    const auto slice_elems = static_cast<size_t>(layouts[unit].slice_elems);
    slices.push_back(storage[unit].gradient.elems().subspan(static_cast<size_t>(rank) * slice_elems,
                                                            slice_elems));
  }
  return slices;
}

class Ddp final : public Parallelism {
 public:
  Ddp(std::vector<UnitSlices> layouts, int64_t num_micro_batches, Collective& collective)
      : collective_(collective),
        storage_(allocate(layouts)),
        slices_(own_slices(storage_, layouts, collective.rank())),
        reducer_(
            collective,
            plan_reduction(num_micro_batches, collective.world_size(), Assignment::kContiguous),
            layouts, slices_, [this](int64_t unit) { gather_gradient(unit); }) {
    for (size_t index = 0; index < layouts.size(); ++index) {
      const auto unit = static_cast<int64_t>(index);
      shards_.push_back(storage_[index].shard(unit, {0, layouts[index].num_elems}));
      owned_.push_back(storage_[index].shard(unit, layouts[index].owned(collective.rank())));
    }
  }

  const std::vector<int64_t>& micro_batches() const override {
    return reducer_.plan().micro_batches[static_cast<size_t>(collective_.rank())];
  }

  const float* unshard(int64_t unit, int64_t /*next*/) override {
    return storage_[static_cast<size_t>(unit)].weights.data();
  }
  void reshard(int64_t /*unit*/) override {}

  float* gradient_buffer(int64_t unit) override { return reducer_.buffer(unit); }
  void gradient_ready(int64_t unit) override { reducer_.ready(unit); }

  void finish_backward() override {
    reducer_.finish();
    for (const PendingPtr& gather : gathers_) gather->wait();
    gathers_.clear();
  }

  std::span<const ParamShard> shards() const override { return shards_; }
  std::span<const ParamShard> owned() const override { return owned_; }

 private:
  void gather_gradient(int64_t unit) {
    const auto index = static_cast<size_t>(unit);
    gathers_.push_back(collective_.all_gather(std::as_bytes(slices_[index]),
                                              storage_[index].gradient.bytes(),
                                              "summed gradient of unit " + std::to_string(unit)));
  }

  Collective& collective_;
  std::vector<UnitStorage> storage_;
  std::vector<std::span<float>> slices_;  // this rank's part of every gradient
  GradientReducer reducer_;
  std::vector<ParamShard> shards_;
  std::vector<ParamShard> owned_;
  std::vector<PendingPtr> gathers_;  // last: waited for before the buffers die
};

}  // namespace

std::unique_ptr<Parallelism> make_ddp(const std::vector<int64_t>& unit_elems,
                                      int64_t num_micro_batches, Collective& collective) {
  return std::make_unique<Ddp>(plan_units(unit_elems, collective.world_size()), num_micro_batches,
                               collective);
}

}  // namespace lockstep::runtime

#include "runtime/parallel/data_parallel.h"

#include <bit>
#include <optional>
#include <string>
#include <utility>

#include "runtime/parallel/gradient_reducer.h"
#include "runtime/parallel/resident_weights.h"
#include "runtime/parallel/unit_gatherer.h"

namespace lockstep::runtime {
namespace {

std::vector<UnitStorage> allocate(const std::vector<UnitSlices>& layouts, const Sharding& sharding,
                                  int rank) {
  std::vector<UnitStorage> storage;
  storage.reserve(layouts.size());
  for (const UnitSlices& layout : layouts) storage.emplace_back(layout, sharding, rank);
  return storage;
}

std::unique_ptr<WeightSource> make_weight_source(const std::vector<UnitStorage>& storage,
                                                 const Sharding& sharding, Collective& collective) {
  std::vector<std::span<std::byte>> weights;
  weights.reserve(storage.size());
  for (const UnitStorage& unit : storage) weights.push_back(unit.weights.values.bytes());
  if (!sharding.weights) {
    return std::make_unique<ResidentWeights>(collective, std::move(weights), sharding.moments);
  }
  return std::make_unique<UnitGatherer>(
      collective, std::vector<std::span<const std::byte>>(weights.begin(), weights.end()));
}

Assignment assignment_for(const Sharding& sharding, int world_size) {
  const bool at_once = sharding.gradients && std::has_single_bit(static_cast<unsigned>(world_size));
  return at_once ? Assignment::kInterleaved : Assignment::kContiguous;
}

std::vector<ParamShard> make_shards(const std::vector<UnitStorage>& storage,
                                    const std::vector<ElemRange>& ranges) {
  std::vector<ParamShard> shards;
  shards.reserve(storage.size());
  for (size_t index = 0; index < storage.size(); ++index) {
    const UnitStorage& unit = storage[index];
    const ElemRange& range = ranges[index];
    shards.push_back({static_cast<int64_t>(index), range.begin_elem, unit.weights.view(range),
                      unit.gradient.view(range), unit.moment1.view(range),
                      unit.moment2.view(range)});
  }
  return shards;
}

// The reducer keeps the gradients; views of them stay valid.
std::vector<FloatBuffer> hand_over_gradients(std::vector<UnitStorage>& storage) {
  std::vector<FloatBuffer> gradients;
  gradients.reserve(storage.size());
  for (UnitStorage& unit : storage) gradients.push_back(std::move(unit.gradient.values));
  return gradients;
}

class DataParallel final : public Parallelism {
 public:
  DataParallel(const Sharding& sharding, const std::vector<UnitSlices>& layouts,
               int64_t num_micro_batches, Collective& collective)
      : collective_(collective),
        replicated_(!sharding.moments),
        storage_(allocate(layouts, sharding, collective.rank())),
        weights_(make_weight_source(storage_, sharding, collective)) {
    std::vector<ElemRange> whole;
    std::vector<ElemRange> owned;
    for (const UnitSlices& layout : layouts) {
      whole.push_back({0, layout.num_elems});
      owned.push_back(layout.owned(collective.rank()));
    }
    shards_ = make_shards(storage_, replicated_ ? whole : owned);
    owned_ = make_shards(storage_, owned);
    for (const UnitStorage& unit : storage_) gradients_.push_back(unit.gradient.values.bytes());
    reducer_.emplace(
        collective,
        ReducerOptions{.plan = plan_reduction(num_micro_batches, collective.world_size(),
                                              assignment_for(sharding, collective.world_size())),
                       .layouts = layouts,
                       .gradients = hand_over_gradients(storage_),
                       .sharded = sharding.gradients},
        [this](int64_t unit) { slice_is_final(unit); });
  }

  const std::vector<int64_t>& micro_batches() const override {
    return reducer_->plan().micro_batches[static_cast<size_t>(collective_.rank())];
  }

  const float* unshard(int64_t unit, int64_t next) override {
    return reinterpret_cast<const float*>(weights_->acquire(unit, next));
  }
  void reshard(int64_t unit) override { weights_->release(unit); }

  float* gradient_buffer(int64_t unit) override { return reducer_->buffer(unit); }
  void gradient_ready(int64_t unit) override { reducer_->ready(unit); }

  void finish_backward() override {
    reducer_->finish();
    for (const PendingPtr& gather : gathers_) gather->wait();
    gathers_.clear();
  }

  void weights_updated() override { weights_->refresh(); }

  std::span<const ParamShard> shards() const override { return shards_; }
  std::span<const ParamShard> owned() const override { return owned_; }

 private:
  // A rank that updates whole units needs all slices of their gradients.
  void slice_is_final(int64_t unit) {
    if (!replicated_) return;
    const std::span<std::byte> full = gradients_[static_cast<size_t>(unit)];
    const size_t slice_bytes = full.size() / static_cast<size_t>(collective_.world_size());
    const std::span<std::byte> own =
        full.subspan(static_cast<size_t>(collective_.rank()) * slice_bytes, slice_bytes);
    gathers_.push_back(
        collective_.all_gather(own, full, "summed gradient of unit " + std::to_string(unit)));
  }

  Collective& collective_;
  bool replicated_;  // every rank updates whole units
  std::vector<UnitStorage> storage_;
  std::unique_ptr<WeightSource> weights_;
  std::vector<ParamShard> shards_;
  std::vector<ParamShard> owned_;
  std::vector<std::span<std::byte>> gradients_;  // views of what the reducer keeps
  std::optional<GradientReducer> reducer_;
  std::vector<PendingPtr> gathers_;  // last: waited for before the buffers die
};

}  // namespace

std::unique_ptr<Parallelism> make_data_parallel(const Sharding& sharding,
                                                const std::vector<int64_t>& unit_elems,
                                                int64_t num_micro_batches, Collective& collective) {
  return std::make_unique<DataParallel>(sharding, plan_units(unit_elems, collective.world_size()),
                                        num_micro_batches, collective);
}

}  // namespace lockstep::runtime

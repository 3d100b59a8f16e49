#include "runtime/parallel/data_parallel.h"

#include <algorithm>
#include <bit>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>

#include "runtime/common/exchange_bytes.h"
#include "runtime/kernels/device.h"
#include "runtime/parallel/gradient_reducer.h"
#include "runtime/parallel/host_visit.h"
#include "runtime/parallel/resident_weights.h"
#include "runtime/parallel/slice_spreader.h"
#include "runtime/parallel/unit_gatherer.h"

namespace lockstep::runtime {
namespace {

using Layouts = std::vector<UnitSlices>;

// Collectives of the rank's groups; null where one group is the whole world.
struct Groups {
  std::unique_ptr<Collective> shards;    // ranks that hold one copy of the model
  std::unique_ptr<Collective> replicas;  // ranks that keep the same slices
};

Placement place(const DataParallelOptions& options, int rank, int world_size) {
  if (options.shard_ranks < 1 || world_size % options.shard_ranks != 0) {
    throw std::invalid_argument(std::to_string(options.shard_ranks) +
                                " ranks per group do not divide " + std::to_string(world_size) +
                                " ranks");
  }
  return {rank, world_size, static_cast<int>(options.shard_ranks)};
}

Groups form_groups(const Placement& placement, Collective& world) {
  if (placement.is_plain()) return {};
  std::vector<int> shards;
  std::vector<int> replicas;
  for (int rank = 0; rank < placement.world_size; ++rank) {
    if (rank / placement.shard_ranks == placement.rank / placement.shard_ranks)
      shards.push_back(rank);
    if (rank % placement.shard_ranks == placement.rank % placement.shard_ranks)
      replicas.push_back(rank);
  }
  return {world.split(shards), world.split(replicas)};
}

bool is_frozen(const std::vector<bool>& frozen, int64_t unit) {
  return !frozen.empty() && frozen[static_cast<size_t>(unit)];
}

std::vector<UnitStorage> allocate(const Layouts& layouts, const DataParallelOptions& options,
                                  const Placement& placement, bool is_offloaded) {
  std::vector<UnitStorage> storage;
  storage.reserve(layouts.size());
  for (const UnitSlices& layout : layouts) {
    const auto unit = static_cast<int64_t>(storage.size());
    storage.emplace_back(layout, UnitStorageOptions{.sharding = options.sharding,
                                                    .num_moments = options.num_moments,
                                                    .placement = placement,
                                                    .dtype = options.dtype,
                                                    .is_frozen = is_frozen(options.frozen, unit),
                                                    .is_base = unit < options.num_base,
                                                    .is_offloaded = is_offloaded});
  }
  return storage;
}

std::vector<StoredUnit> stored_units(const Layouts& layouts, const DataParallelOptions& options,
                                     const Placement& placement) {
  std::vector<StoredUnit> units;
  units.reserve(layouts.size());
  for (const UnitSlices& layout : layouts) {
    const auto unit = static_cast<int64_t>(units.size());
    const bool frozen = is_frozen(options.frozen, unit);
    const bool is_base = unit < options.num_base;
    units.push_back({.kept = kept_range(layout, options.sharding.moments, placement),
                     .num_moments = frozen ? 0 : options.num_moments,
                     .has_masters = options.dtype != DType::kFp32 && !is_base});
  }
  return units;
}

// Where weights come from: all of them, or where they are gathered those that have buffers
// together.
struct WeightSources {
  int64_t num_first = 0;  // units of `first`
  std::unique_ptr<WeightSource> first;
  std::unique_ptr<WeightSource> beside;  // of the units after them; null if there are none

  WeightSource& of(int64_t unit) const { return unit < num_first ? *first : *beside; }
};

std::unique_ptr<WeightSource> make_gatherer(const std::vector<std::span<std::byte>>& weights,
                                            size_t begin, size_t end, int64_t num_ahead,
                                            Collective& collective) {
  std::vector<std::span<const std::byte>> slices(weights.size());
  for (size_t unit = begin; unit < end; ++unit) slices[unit] = weights[unit];
  return std::make_unique<UnitGatherer>(collective, std::move(slices), num_ahead);
}

WeightSources make_weight_sources(const std::vector<UnitStorage>& storage,
                                  const DataParallelOptions& options, Collective& collective) {
  std::vector<std::span<std::byte>> weights;
  weights.reserve(storage.size());
  for (const UnitStorage& unit : storage) weights.push_back(unit.compute_bytes());
  const size_t num_units = weights.size();
  if (!options.sharding.weights) {
    return {static_cast<int64_t>(num_units),
            std::make_unique<ResidentWeights>(collective, std::move(weights),
                                              options.sharding.moments, options.frozen),
            nullptr};
  }
  const size_t num_first = options.num_base > 0 ? static_cast<size_t>(options.num_base) : num_units;
  WeightSources sources{static_cast<int64_t>(num_first),
                        make_gatherer(weights, 0, num_first, options.prefetch_units, collective),
                        nullptr};
  if (num_first < num_units) {
    sources.beside =
        make_gatherer(weights, num_first, num_units, options.prefetch_units, collective);
  }
  return sources;
}

Assignment assignment_for(const DataParallelOptions& options, int world_size) {
  const bool may =
      options.order == SumOrder::kRunning || std::has_single_bit(static_cast<unsigned>(world_size));
  return options.sharding.gradients && may ? Assignment::kInterleaved : Assignment::kContiguous;
}

std::vector<ParamShard> make_shards(const std::vector<UnitStorage>& storage, const Layouts& layouts,
                                    int64_t num_base, int first_slice, int num_slices) {
  std::vector<ParamShard> shards;
  shards.reserve(storage.size());
  for (size_t index = 0; index < storage.size(); ++index) {
    const UnitStorage& unit = storage[index];
    const ElemRange range = layouts[index].slices(first_slice, num_slices);
    if (static_cast<int64_t>(index) < num_base) {
      shards.push_back({static_cast<int64_t>(index), range.begin_elem, {}, {}, {}, {}});
      continue;
    }
    shards.push_back({static_cast<int64_t>(index), range.begin_elem, unit.weights.view(range),
                      unit.gradient.view(range), unit.moment1.view(range),
                      unit.moment2.view(range)});
  }
  return shards;
}

// Shards with their lengths, which those without weights in memory do not tell.
std::vector<VisitedShard> visited_shards(std::span<const ParamShard> shards, const Layouts& layouts,
                                         int64_t num_base, int first_slice, int num_slices) {
  std::vector<VisitedShard> visited;
  visited.reserve(shards.size());
  for (const ParamShard& shard : shards) {
    const UnitSlices& layout = layouts[static_cast<size_t>(shard.unit)];
    const int64_t num_elems = layout.slices(first_slice, num_slices).num_elems();
    visited.push_back({shard, shard.unit < num_base ? 0 : num_elems});
  }
  return visited;
}

int64_t gradient_bytes(const Layouts& layouts, const std::vector<bool>& frozen) {
  int64_t sum = 0;
  for (size_t unit = 0; unit < layouts.size(); ++unit) {
    if (frozen.empty() || !frozen[unit]) sum += layouts[unit].padded_bytes();
  }
  return sum;
}

class DataParallel final : public Parallelism {
 public:
  DataParallel(const DataParallelOptions& options, const Layouts& layouts,
               const Placement& placement, Collective& world, std::unique_ptr<SwapFile> swap_file)
      : groups_(form_groups(placement, world)),
        dtype_(options.dtype),
        num_base_(options.num_base),
        frozen_(options.frozen),
        storage_(allocate(layouts, options, placement, swap_file != nullptr)),
        weights_(make_weight_sources(storage_, options, groups_.shards ? *groups_.shards : world)),
        owned_(make_shards(storage_, layouts, num_base_, placement.owned(placement.rank), 1)) {
    const bool replicated = !options.sharding.moments;
    const int first = replicated ? 0 : placement.first_kept();
    const int count = replicated ? placement.world_size : placement.num_groups();
    shards_ = make_shards(storage_, layouts, num_base_, first, count);
    for (int64_t unit = 0; unit < num_base_; ++unit) {
      const UnitSlices& layout = layouts[static_cast<size_t>(unit)];
      ElemRange kept = kept_range(layout, options.sharding.weights, placement);
      kept.end_elem = std::max(kept.begin_elem, std::min(kept.end_elem, layout.num_elems));
      base_ranges_.push_back(kept);
    }
    if (swap_file != nullptr) {
      visited_shards_ = visited_shards(shards_, layouts, num_base_, first, count);
      visited_owned_ =
          visited_shards(owned_, layouts, num_base_, placement.owned(placement.rank), 1);
      std::vector<StoredUnit> stored = stored_units(layouts, options, placement);
      place_stored_units(stored);
      swapper_.emplace(std::move(swap_file), std::move(stored), options.swap_piece_elems);
    }
    const std::vector<Bucket> buckets = plan_buckets(
        layouts,
        common::exchange_bytes(options.bucket_bytes, gradient_bytes(layouts, options.frozen)),
        options.frozen);
    if (replicated || groups_.replicas) {
      spreader_.emplace(replicated ? world : *groups_.replicas, buckets, gradients(), options.wire);
    }
    make_reducer(options, layouts, placement, buckets, world);
  }

  const std::vector<int64_t>& micro_batches() const override { return micro_batches_; }

  ConstValues unshard(int64_t unit, int64_t next) override {
    return {dtype_, weights_.of(unit).acquire(unit, next)};
  }
  void reshard(int64_t unit) override { weights_.of(unit).release(unit); }

  float* gradient_buffer(int64_t unit) override {
    return is_frozen(frozen_, unit) ? nullptr : reducer_->buffer(unit);
  }
  void gradient_ready(int64_t unit) override { reducer_->ready(unit); }

  void finish_backward() override {
    reducer_->finish();
    if (spreader_) spreader_->finish();
  }

  void weights_updated() override {
    for (size_t unit = 0; unit < storage_.size(); ++unit) {
      if (is_complete_ && is_frozen(frozen_, static_cast<int64_t>(unit))) continue;
      storage_[unit].update_copy();
    }
    is_complete_ = true;
    weights_.first->refresh();
    if (weights_.beside) weights_.beside->refresh();
  }

  std::span<const ParamShard> shards() const override { return shards_; }
  std::span<const ParamShard> owned() const override { return owned_; }

  void fill_base(const FillElems& fill) override {
    constexpr int64_t kPieceElems = int64_t{1} << 20;
    std::vector<float> piece;
    FloatBuffer on_device;  // of the piece, if that is elsewhere
    if (device().has_own_memory && num_base_ > 0) on_device = FloatBuffer(kPieceElems);
    for (size_t unit = 0; unit < base_ranges_.size(); ++unit) {
      const ElemRange& range = base_ranges_[unit];
      for (int64_t begin = range.begin_elem; begin < range.end_elem; begin += kPieceElems) {
        piece.resize(static_cast<size_t>(std::min(kPieceElems, range.end_elem - begin)));
        fill(static_cast<int64_t>(unit), begin, piece);
        std::span<const float> filled = piece;
        if (on_device.num_elems() > 0) {
          copy_floats(static_cast<int64_t>(piece.size()), piece.data(), on_device.data());
          filled = on_device.elems().first(piece.size());
        }
        storage_[unit].fill(begin, filled);
      }
    }
  }

  bool is_in_host_memory() const override { return !swapper_ && !device().has_own_memory; }

  void visit_shards(StateAccess access, const UseShard& use) override {
    if (!swapper_) return visit_resident(shards_, access, use);
    const bool changes_copies =
        dtype_ != DType::kFp32 && (access == StateAccess::kFill || access == StateAccess::kUpdate);
    swapper_->visit(visited_shards_, access, [&](const ParamShard& part) {
      use(part);
      if (!changes_copies) return;
      storage_[static_cast<size_t>(part.unit)].update_copy(part.begin_elem, part.weights);
    });
  }

  void visit_owned(StateAccess access, const UseShard& use) override {
    if (!swapper_) return visit_resident(owned_, access, use);
    swapper_->visit(visited_owned_, access, use);
  }

 private:
  // The optimizer computes on the device; everybody else is on the host.
  static void visit_resident(const std::vector<ParamShard>& shards, StateAccess access,
                             const UseShard& use) {
    if (device().has_own_memory && access != StateAccess::kUpdate) {
      return visit_on_host(shards, access, use);
    }
    std::for_each(shards.begin(), shards.end(), use);
  }

  std::vector<std::span<float>> gradients() const {
    std::vector<std::span<float>> views;
    views.reserve(storage_.size());
    for (const UnitStorage& unit : storage_) views.push_back(unit.gradient.values.elems());
    return views;
  }

  // The reducer takes the gradients' buffers; views of them stay valid.
  void make_reducer(const DataParallelOptions& options, const Layouts& layouts,
                    const Placement& placement, const std::vector<Bucket>& buckets,
                    Collective& world) {
    ReducerOptions reducer = {
        .plan = plan_reduction(options.num_micro_batches, placement.world_size,
                               assignment_for(options, placement.world_size), options.order),
        .layouts = layouts,
        .buckets = buckets,
        .placement = placement,
        .wire = options.wire,
        .sharded = options.sharding.gradients};
    for (UnitStorage& unit : storage_) reducer.gradients.push_back(std::move(unit.gradient.values));
    micro_batches_ = reducer.plan.micro_batches[static_cast<size_t>(placement.rank)];
    reducer_.emplace(world, std::move(reducer), [this](int64_t unit) {
      if (spreader_) spreader_->slice_final(unit);
    });
  }

  Groups groups_;
  DType dtype_;
  int64_t num_base_;
  std::vector<ElemRange> base_ranges_;  // of what this rank computes with
  std::vector<bool> frozen_;
  bool is_complete_ = false;  // frozen weights were handed on once
  std::vector<UnitStorage> storage_;
  WeightSources weights_;
  std::vector<int64_t> micro_batches_;
  std::vector<ParamShard> shards_;
  std::vector<ParamShard> owned_;
  std::vector<VisitedShard> visited_shards_;  // shards_ and owned_ of offloaded state
  std::vector<VisitedShard> visited_owned_;
  std::optional<StateSwapper> swapper_;
  std::optional<GradientReducer> reducer_;
  std::optional<SliceSpreader> spreader_;  // after the reducer, whose gradients it writes
};

}  // namespace

std::unique_ptr<Parallelism> make_data_parallel(const DataParallelOptions& options,
                                                Collective& world,
                                                std::unique_ptr<SwapFile> swap_file) {
  return std::make_unique<DataParallel>(options, plan_units(options.unit_elems, world.world_size()),
                                        place(options, world.rank(), world.world_size()), world,
                                        std::move(swap_file));
}

int64_t offloaded_bytes(const DataParallelOptions& options, int rank, int world_size) {
  std::vector<StoredUnit> units = stored_units(plan_units(options.unit_elems, world_size), options,
                                               place(options, rank, world_size));
  return place_stored_units(units);
}

}  // namespace lockstep::runtime

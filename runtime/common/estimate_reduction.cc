#include "runtime/common/estimate_reduction.h"

#include <algorithm>
#include <bit>
#include <deque>
#include <map>

#include "runtime/common/exchange_bytes.h"

namespace lockstep::common {
namespace {

constexpr int64_t kSumBytes = 4;       // of a partial sum
constexpr int64_t kChunkElems = 1024;  // kNormChunkElems
constexpr size_t kMaxUnderWay = 2;     // exchanges, and gathers of sums
constexpr int64_t kMostRanksFollowed = 32;
constexpr int64_t kMostMicroBatches = 256;  // beyond, one more level per doubling is not counted

int64_t ceil_div(int64_t a, int64_t b) {
  return (a + b - 1) / b;
}

// A BufferPool: what was taken at once is kept.
class Pool {
 public:
  void take(int64_t elems) {
    int64_t& free = free_[elems];
    if (free > 0) {
      --free;
    } else {
      bytes_ += elems * kSumBytes;
    }
  }
  void give_back(int64_t elems) { ++free_[elems]; }
  int64_t bytes() const { return bytes_; }

 private:
  std::map<int64_t, int64_t> free_;
  int64_t bytes_ = 0;
};

// As Bucket: units, or a part of one.
struct Bucket {
  std::vector<size_t> units;
  std::vector<int64_t> piece_elems;  // of each unit's slice
  int64_t slice_elems = 0;
};

// As plan_buckets().
std::vector<Bucket> plan_buckets(const std::vector<UnitSizes>& units, int64_t bucket_bytes) {
  std::vector<Bucket> buckets;
  int64_t room_bytes = -1;
  for (size_t unit = units.size(); unit-- > 0;) {
    if (units[unit].is_frozen) continue;
    const int64_t bytes = units[unit].padded * kSumBytes;
    if (bytes > bucket_bytes) {
      const int64_t chunks = units[unit].slice / kChunkElems;
      const int64_t pieces = std::min(chunks, ceil_div(bytes, bucket_bytes));
      const int64_t piece = ceil_div(chunks, pieces) * kChunkElems;
      for (int64_t begin = 0; begin < units[unit].slice; begin += piece) {
        const int64_t elems = std::min(piece, units[unit].slice - begin);
        buckets.push_back({{unit}, {elems}, elems});
      }
      room_bytes = -1;
      continue;
    }
    if (room_bytes < bytes) {
      buckets.emplace_back();
      room_bytes = bucket_bytes;
    }
    buckets.back().units.push_back(unit);
    buckets.back().piece_elems.push_back(units[unit].slice);
    buckets.back().slice_elems += units[unit].slice;
    room_bytes -= bytes;
  }
  return buckets;
}

int64_t gradient_bytes(const std::vector<UnitSizes>& units) {
  int64_t sum = 0;
  for (const UnitSizes& unit : units) {
    if (!unit.is_frozen) sum += unit.padded * kSumBytes;
  }
  return sum;
}

// Sizes of the subtrees of the tree over leaves [begin, end) that lie whole in [from, to). See Note
// [The tree] in parallel/reduction_tree.h.
void append_roots(int64_t begin, int64_t end, int64_t from, int64_t to,
                  std::vector<int64_t>& sizes) {
  if (end <= from || to <= begin) return;
  if (from <= begin && end <= to) {
    sizes.push_back(end - begin);
    return;
  }
  const int64_t split =
      begin + static_cast<int64_t>(std::bit_floor(static_cast<uint64_t>(end - begin - 1)));
  append_roots(begin, split, from, to, sizes);
  append_roots(split, end, from, to, sizes);
}

// As PartialSums. The oldest may lie in the gradient's own storage.
struct Counter {
  std::vector<int64_t> leaves;
  bool oldest_is_stored = false;
  int64_t num_leaves = 0;

  void push(bool is_stored, bool running, int64_t elems, Pool& pool) {
    if (leaves.empty()) oldest_is_stored = is_stored;
    leaves.push_back(1);
    ++num_leaves;
    while (leaves.size() > 1 && (running || leaves[leaves.size() - 2] == leaves.back())) {
      merge(elems, pool);
    }
  }
  // Returns whether the sum is in storage.
  bool take_sum(int64_t elems, Pool& pool) {
    while (leaves.size() > 1) merge(elems, pool);
    leaves.clear();
    num_leaves = 0;
    return oldest_is_stored;
  }
  void merge(int64_t elems, Pool& pool) {
    const int64_t youngest = leaves.back();
    leaves.pop_back();
    leaves.back() += youngest;
    pool.give_back(elems);
  }
};

// One rank's GradientReducer and SliceSpreader over one step.
class ReducerModel {
 public:
  ReducerModel(const ReductionFacts& facts, std::vector<int64_t> roots, int64_t num_exchanges,
               int64_t num_rounds)
      : facts_(facts),
        roots_(std::move(roots)),
        num_exchanges_(num_exchanges),
        num_rounds_(num_rounds),
        buckets_(plan_buckets(
            facts.units, exchange_bytes(facts.config.bucket_bytes, gradient_bytes(facts.units)))),
        units_(facts.units.size()) {}

  int64_t run() {
    for (int64_t step = 0; step < facts_.micro_batches_per_rank; ++step) {
      for (size_t unit = units_.size(); unit-- > 0;) {
        if (!facts_.units[unit].is_frozen) add_gradient(unit);
      }
    }
    while (!exchanges_.empty()) finish_oldest();
    return pool_.bytes() + spread_pool_.bytes();
  }

 private:
  struct Unit {
    bool is_stored = true;  // the gradient's storage is free
    Counter counter;
    std::vector<bool> roots;  // whether they are in storage
    size_t num_unsent = 0;
    int64_t num_summed = 0;
    bool has_leaf = false;
    bool leaf_is_stored = false;
    Counter slices;
  };

  bool sharded() const { return facts_.strategy >= Strategy::kZero2; }
  bool running() const { return facts_.config.reduction == Reduction::kFast; }
  bool grouped() const {
    return facts_.config.shard_ranks > 0 && facts_.config.shard_ranks < facts_.ranks;
  }
  int64_t wire_elems(int64_t elems) const {
    return elems * elem_bytes(facts_.config.reduce_dtype) / kSumBytes;
  }
  bool is_whole(const Bucket& bucket) const {
    return bucket.units.size() == 1 &&
           bucket.slice_elems == facts_.units[bucket.units.front()].slice &&
           facts_.config.reduce_dtype == DType::kFp32;
  }

  void add_gradient(size_t index) {
    Unit& unit = units_[index];
    const int64_t padded = facts_.units[index].padded;
    const bool in_storage = !sharded() && unit.is_stored;
    if (in_storage) {
      unit.is_stored = false;
    } else {
      pool_.take(padded);
    }
    unit.counter.push(in_storage, running(), padded, pool_);
    if (unit.counter.num_leaves < roots_[unit.roots.size()]) return;
    unit.roots.push_back(unit.counter.take_sum(padded, pool_));
    if (unit.roots.size() < roots_.size()) return;
    for (const Bucket& bucket : buckets_) unit.num_unsent += contains(bucket, index) ? 1 : 0;
    for (size_t bucket = 0; bucket < buckets_.size(); ++bucket) {
      // A bucket is complete with the unit that backward reaches last.
      if (buckets_[bucket].units.back() == index) begin(bucket);
    }
  }

  static bool contains(const Bucket& bucket, size_t unit) {
    return std::find(bucket.units.begin(), bucket.units.end(), unit) != bucket.units.end();
  }

  void begin(size_t index) {
    if (exchanges_.size() == kMaxUnderWay) finish_oldest();
    const Bucket& bucket = buckets_[index];
    const int64_t round = wire_elems(bucket.slice_elems * facts_.ranks);
    if (!is_whole(bucket) || grouped()) {
      for (int64_t i = 0; i < num_rounds_; ++i) pool_.take(round);
      for (const size_t unit : bucket.units) {
        if (--units_[unit].num_unsent == 0) give_back_roots(unit);
      }
    }
    pool_.take(num_rounds_ * round);
    exchanges_.push_back(index);
  }

  void give_back_roots(size_t index) {
    Unit& unit = units_[index];
    for (const bool in_storage : unit.roots) {
      if (in_storage) {
        unit.is_stored = true;
      } else {
        pool_.give_back(facts_.units[index].padded);
      }
    }
    unit.roots.clear();
    unit.num_unsent = 0;
  }

  void finish_oldest() {
    const Bucket& bucket = buckets_[exchanges_.front()];
    exchanges_.pop_front();
    const int64_t values = num_rounds_ * bucket.slice_elems * facts_.ranks;
    if (!is_whole(bucket) || grouped()) {
      for (int64_t i = 0; i < num_rounds_; ++i) {
        pool_.give_back(wire_elems(bucket.slice_elems * facts_.ranks));
      }
    } else {
      give_back_roots(bucket.units.front());
    }
    if (wire_elems(values) != values) {
      pool_.take(values);
      pool_.give_back(wire_elems(values));
    }
    for (size_t i = 0; i < bucket.units.size(); ++i) {
      add_to_slice(bucket.units[i], bucket.piece_elems[i]);
    }
    pool_.give_back(values);
    const bool is_last = !sharded() || units_[bucket.units.back()].slices.num_leaves == 0;
    if (is_last) spread(bucket);
  }

  void add_to_slice(size_t index, int64_t elems) {
    if (!sharded()) return;
    Unit& unit = units_[index];
    const int64_t slice = facts_.units[index].slice;
    if (!unit.has_leaf) {
      unit.has_leaf = true;
      unit.leaf_is_stored = unit.is_stored;
      if (unit.is_stored) {
        unit.is_stored = false;
      } else {
        pool_.take(slice);
      }
    }
    unit.num_summed += elems;
    if (unit.num_summed < slice) return;
    unit.num_summed = 0;
    unit.has_leaf = false;
    unit.slices.push(unit.leaf_is_stored, running(), slice, pool_);
    if (unit.slices.num_leaves < num_exchanges_) return;
    unit.slices.take_sum(slice, pool_);
    unit.is_stored = true;
  }

  // Sums that several ranks keep are gathered, in place or through a buffer.
  void spread(const Bucket& bucket) {
    const int64_t group = grouped() ? facts_.ranks / facts_.config.shard_ranks
                          : facts_.strategy == Strategy::kDdp ? facts_.ranks
                                                              : 0;
    if (group == 0 || is_whole(bucket)) return;
    const int64_t elems = wire_elems(bucket.slice_elems) * group;
    if (spreads_.size() == kMaxUnderWay) {
      spread_pool_.give_back(spreads_.front());
      spreads_.pop_front();
    }
    spread_pool_.take(elems);
    spreads_.push_back(elems);
  }

  const ReductionFacts& facts_;
  std::vector<int64_t> roots_;
  int64_t num_exchanges_;
  int64_t num_rounds_;
  std::vector<Bucket> buckets_;
  std::vector<Unit> units_;
  Pool pool_;
  Pool spread_pool_;
  std::deque<size_t> exchanges_;
  std::deque<int64_t> spreads_;
};

}  // namespace

int64_t reduction_bytes(const ReductionFacts& facts) {
  ReductionFacts followed = facts;
  followed.micro_batches_per_rank = std::min(facts.micro_batches_per_rank, kMostMicroBatches);
  const int64_t per_rank = followed.micro_batches_per_rank;
  const bool is_fast = facts.config.reduction == Reduction::kFast;
  const bool at_once = facts.strategy >= Strategy::kZero2 &&
                       (is_fast || std::has_single_bit(static_cast<uint64_t>(facts.ranks)));
  if (at_once) return ReducerModel(followed, {1}, per_rank, 1).run();
  if (is_fast) return ReducerModel(followed, {per_rank}, 1, 1).run();

  std::vector<std::vector<int64_t>> roots;
  size_t num_rounds = 1;
  for (int64_t rank = 0; rank < std::min(facts.ranks, kMostRanksFollowed); ++rank) {
    roots.emplace_back();
    append_roots(0, per_rank * facts.ranks, rank * per_rank, (rank + 1) * per_rank, roots.back());
    num_rounds = std::max(num_rounds, roots.back().size());
  }
  int64_t most = 0;
  for (std::vector<int64_t>& of_rank : roots) {
    const auto rounds = static_cast<int64_t>(num_rounds);
    most = std::max(most, ReducerModel(followed, std::move(of_rank), 1, rounds).run());
  }
  return most;
}

}  // namespace lockstep::common

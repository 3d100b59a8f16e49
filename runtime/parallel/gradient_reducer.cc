#include "runtime/parallel/gradient_reducer.h"

#include <algorithm>
#include <stdexcept>
#include <string>
#include <utility>

#include "runtime/kernels/device.h"
#include "runtime/kernels/elementwise.h"

namespace lockstep::runtime {
namespace {

// Place by place in the hosts, host by host.
std::vector<int> order_by_place(int world_size, int ranks_per_host) {
  std::vector<int> ranks;
  ranks.reserve(static_cast<size_t>(world_size));
  for (int place = 0; place < ranks_per_host; ++place) {
    for (int rank = place; rank < world_size; rank += ranks_per_host) ranks.push_back(rank);
  }
  return ranks;
}

void carry_out(const std::vector<Addition>& additions, int64_t value_elems, float* values) {
  for (const Addition& addition : additions) {
    add_in_place(value_elems, values + addition.source * value_elems,
                 values + addition.target * value_elems);
  }
}

}  // namespace

GradientReducer::GradientReducer(Collective& collective, ReducerOptions options,
                                 OnSliceFinal on_slice_final)
    : collective_(collective),
      plan_(std::move(options.plan)),
      layouts_(std::move(options.layouts)),
      buckets_(std::move(options.buckets)),
      progress_(buckets_, layouts_.size()),
      placement_(options.placement),
      wire_(options.wire),
      sharded_(options.sharded),
      on_slice_final_(std::move(on_slice_final)),
      units_(layouts_.size()) {
  if (!sharded_ && plan_.num_exchanges != 1) {
    throw std::invalid_argument("whole gradients are exchanged once per step");
  }
  hosts_ = plan_host_reduction(plan_, collective_.topology().ranks_per_host);
  first_wire_ = hosts_ ? common::DType::kFp32 : wire_;
  send_order_ = order_by_place(plan_.world_size, hosts_ ? hosts_->ranks_per_host : 1);
  const int first_slice = sharded_ ? placement_.first_kept() : 0;
  for (size_t unit = 0; unit < units_.size(); ++unit) {
    UnitState& state = units_[unit];
    state.gradient = std::move(options.gradients[unit]);
    if (state.gradient.num_elems() == 0) continue;  // frozen
    state.own_slice = state.gradient.data() + (placement_.owned(collective_.rank()) - first_slice) *
                                                  layouts_[unit].slice_elems;
  }
}

float* GradientReducer::buffer(int64_t unit) {
  const auto index = static_cast<size_t>(unit);
  UnitState& state = units_[index];
  if (state.current.data() != nullptr) return state.current.data();
  const bool is_oldest = !sharded_ && state.gradient.data() != nullptr;
  state.current = is_oldest ? std::exchange(state.gradient, FloatBuffer())
                            : pool_.take(layouts_[index].padded_elems);
  return state.current.data();
}

void GradientReducer::ready(int64_t unit) {
  UnitState& state = units_[static_cast<size_t>(unit)];
  if (state.current.data() == nullptr) {
    throw std::logic_error("no gradient buffer of unit " + std::to_string(unit) + " was taken");
  }
  const std::vector<int64_t>& root_leaves =
      plan_.root_leaves[static_cast<size_t>(collective_.rank())];
  state.counter.push(std::exchange(state.current, FloatBuffer()), plan_.order, pool_);
  if (state.counter.num_leaves() < root_leaves[state.roots.size()]) return;
  state.roots.push_back(state.counter.take_sum(pool_));
  if (state.roots.size() < root_leaves.size()) return;
  state.num_unsent = progress_.num_buckets_of(unit);
  for (const size_t bucket : progress_.finish_unit(unit)) begin_exchange(bucket);
}

void GradientReducer::finish() {
  while (!exchanges_.empty()) finish_oldest_exchange();
  for (size_t unit = 0; unit < units_.size(); ++unit) {
    const UnitState& state = units_[unit];
    if (state.counter.num_leaves() > 0 || !state.roots.empty() ||
        state.slice_counter.num_leaves() > 0) {
      throw std::logic_error("gradients of unit " + std::to_string(unit) + " are missing");
    }
  }
}

// Such a bucket needs no packing: its roots lie in memory as they travel.
bool GradientReducer::is_whole_unit(const Bucket& bucket) const {
  const auto unit = static_cast<size_t>(bucket.pieces.front().unit);
  return !hosts_ && wire_ == common::DType::kFp32 && placement_.is_plain() &&
         bucket.pieces.size() == 1 && bucket.slice_elems == layouts_[unit].slice_elems;
}

void GradientReducer::begin_exchange(size_t index) {
  if (!exchanges_.empty()) send_across(exchanges_.back());
  if (exchanges_.size() == kMaxExchanges) finish_oldest_exchange();
  const Bucket& bucket = buckets_[index];
  const std::string what = "gradient of " + bucket.name();
  const auto round_bytes =
      static_cast<size_t>(bucket.slice_elems * plan_.world_size * common::elem_bytes(first_wire_));
  Exchange& exchange = exchanges_.emplace_back();
  exchange.bucket = index;
  exchange.is_inside = hosts_.has_value();
  exchange.sends_roots = is_whole_unit(bucket);
  if (exchange.sends_roots) {
    exchange.sent =
        std::exchange(units_[static_cast<size_t>(bucket.pieces.front().unit)].roots, {});
  } else {
    for (int64_t round = 0; round < plan_.num_rounds; ++round) {
      exchange.sent.push_back(pack(bucket, round));
    }
    for (const BucketPiece& piece : bucket.pieces) {
      UnitState& state = units_[static_cast<size_t>(piece.unit)];
      if (--state.num_unsent == 0) give_back_roots(state, std::exchange(state.roots, {}));
    }
  }
  const Reach reach = hosts_ ? Reach::kInside : Reach::kWorld;
  exchange.values =
      pool_.take(plan_.num_rounds * static_cast<int64_t>(round_bytes / sizeof(float)));
  for (size_t round = 0; round < static_cast<size_t>(plan_.num_rounds); ++round) {
    // A rank with fewer roots than others takes part with one that nobody adds again.
    const FloatBuffer& sent = exchange.sent[std::min(round, exchange.sent.size() - 1)];
    const std::span<std::byte> received =
        exchange.values.bytes().subspan(round * round_bytes, round_bytes);
    exchange.rounds.push_back(collective_.all_to_all(sent.bytes(), received, what, reach));
  }
}

// The second part of an exchange, if it is not begun: the sums of this host for the others.
void GradientReducer::send_across(Exchange& exchange) {
  if (!exchange.is_inside) return;
  exchange.is_inside = false;
  for (const PendingPtr& round : exchange.rounds) round->wait();
  exchange.rounds.clear();
  give_back_sent(exchange);
  const Bucket& bucket = buckets_[exchange.bucket];
  const int64_t num_hosts = plan_.world_size / hosts_->ranks_per_host;
  const int64_t value_elems = num_hosts * bucket.slice_elems;
  const auto host = static_cast<size_t>(collective_.rank() / hosts_->ranks_per_host);
  carry_out(hosts_->inside[host], value_elems, exchange.values.data());
  const std::vector<std::span<const std::byte>> sums = host_sums(exchange, value_elems);
  const auto round_bytes = static_cast<size_t>(value_elems * common::elem_bytes(wire_));
  exchange.values =
      pool_.take(hosts_->num_rounds * static_cast<int64_t>(round_bytes / sizeof(float)));
  for (size_t round = 0; round < static_cast<size_t>(hosts_->num_rounds); ++round) {
    // A host with fewer roots than others takes part with one that nobody adds again.
    exchange.rounds.push_back(
        collective_.all_to_all(sums[std::min(round, sums.size() - 1)],
                               exchange.values.bytes().subspan(round * round_bytes, round_bytes),
                               "gradient of " + bucket.name(), Reach::kAcross));
  }
}

// The roots of this host among the values of an exchange, as they travel across. They stay in
// exchange.sent.
std::vector<std::span<const std::byte>> GradientReducer::host_sums(Exchange& exchange,
                                                                   int64_t value_elems) {
  FloatBuffer values = std::move(exchange.values);
  const std::vector<int64_t>& roots =
      hosts_->roots[static_cast<size_t>(collective_.rank() / hosts_->ranks_per_host)];
  const auto num_elems = static_cast<size_t>(value_elems);
  std::vector<std::span<const std::byte>> sums;
  sums.reserve(roots.size());
  for (const int64_t root : roots) {
    const std::span<const float> sum =
        values.elems().subspan(static_cast<size_t>(root) * num_elems, num_elems);
    if (wire_ == common::DType::kFp32) {
      sums.push_back(std::as_bytes(sum));
      continue;
    }
    const int64_t bytes = value_elems * common::elem_bytes(wire_);
    FloatBuffer& sent =
        exchange.sent.emplace_back(pool_.take(bytes / static_cast<int64_t>(sizeof(float))));
    encode(wire_, sum, sent.bytes().data());
    sums.push_back(sent.bytes());
  }
  if (wire_ == common::DType::kFp32) {
    exchange.sent.push_back(std::move(values));
  } else {
    pool_.give_back(std::move(values));
  }
  return sums;
}

void GradientReducer::give_back_sent(Exchange& exchange) {
  if (exchange.sends_roots) {
    const auto unit = static_cast<size_t>(buckets_[exchange.bucket].pieces.front().unit);
    give_back_roots(units_[unit], std::exchange(exchange.sent, {}));
  }
  for (FloatBuffer& sent : std::exchange(exchange.sent, {})) pool_.give_back(std::move(sent));
}

// Root `round` of the bucket's units as it travels: rank after rank, in send_order_, what it owns
// of each piece.
FloatBuffer GradientReducer::pack(const Bucket& bucket, int64_t round) {
  const int64_t bytes = bucket.slice_elems * plan_.world_size * common::elem_bytes(first_wire_);
  FloatBuffer packed = pool_.take(bytes / static_cast<int64_t>(sizeof(float)));
  std::byte* to = packed.bytes().data();
  for (const int rank : send_order_) {
    for (const BucketPiece& piece : bucket.pieces) {
      const auto unit = static_cast<size_t>(piece.unit);
      const std::vector<FloatBuffer>& roots = units_[unit].roots;
      const std::span<const float> root =
          roots[std::min(static_cast<size_t>(round), roots.size() - 1)].elems();
      const int64_t begin = placement_.owned(rank) * layouts_[unit].slice_elems + piece.begin_elem;
      to = encode(first_wire_,
                  root.subspan(static_cast<size_t>(begin), static_cast<size_t>(piece.num_elems)),
                  to);
    }
  }
  return packed;
}

// The oldest root of a whole gradient lies where the final sum goes.
void GradientReducer::give_back_roots(UnitState& state, std::vector<FloatBuffer> roots) {
  for (FloatBuffer& root : roots) {
    if (!sharded_ && state.gradient.data() == nullptr) {
      state.gradient = std::move(root);
    } else {
      pool_.give_back(std::move(root));
    }
  }
}

void GradientReducer::finish_oldest_exchange() {
  send_across(exchanges_.front());
  Exchange exchange = std::move(exchanges_.front());
  exchanges_.pop_front();
  for (const PendingPtr& round : exchange.rounds) round->wait();
  exchange.rounds.clear();
  const Bucket& bucket = buckets_[exchange.bucket];
  give_back_sent(exchange);
  FloatBuffer values = sum_values(bucket, std::move(exchange.values));
  const float* sum = values.data();
  for (const BucketPiece& piece : bucket.pieces) {
    add_to_slice(piece, sum);
    sum += piece.num_elems;
  }
  pool_.give_back(std::move(values));
}

// Adds the received values in the plan's order; the sum is the first value of the result.
FloatBuffer GradientReducer::sum_values(const Bucket& bucket, FloatBuffer values) {
  if (wire_ != common::DType::kFp32) {
    const int64_t num_values = hosts_
                                   ? hosts_->num_rounds * plan_.world_size / hosts_->ranks_per_host
                                   : plan_.num_rounds * plan_.world_size;
    FloatBuffer decoded = pool_.take(num_values * bucket.slice_elems);
    decode(wire_, values.bytes().data(), decoded.elems());
    pool_.give_back(std::exchange(values, std::move(decoded)));
  }
  carry_out(hosts_ ? hosts_->across : plan_.additions, bucket.slice_elems, values.data());
  return values;
}

// Takes the sum of one exchange over one piece of the slice that this rank owns.
void GradientReducer::add_to_slice(const BucketPiece& piece, const float* sum) {
  const auto index = static_cast<size_t>(piece.unit);
  const int64_t slice_elems = layouts_[index].slice_elems;
  UnitState& state = units_[index];
  if (sharded_ && state.leaf.data() == nullptr) {
    const bool is_oldest = state.gradient.data() != nullptr;
    state.leaf = is_oldest ? std::exchange(state.gradient, FloatBuffer()) : pool_.take(slice_elems);
  }
  float* const slice = sharded_ ? state.leaf.data() : state.own_slice;
  copy_floats(piece.num_elems, sum, slice + piece.begin_elem);
  state.num_summed += piece.num_elems;
  if (state.num_summed < slice_elems) return;
  state.num_summed = 0;
  if (sharded_) {
    state.slice_counter.push(std::exchange(state.leaf, FloatBuffer()), plan_.order, pool_);
    if (state.slice_counter.num_leaves() < plan_.num_exchanges) return;
    state.gradient = state.slice_counter.take_sum(pool_);
    if (state.own_slice != state.gradient.data()) {
      copy_floats(slice_elems, state.gradient.data(), state.own_slice);
    }
  }
  on_slice_final_(piece.unit);
}

}  // namespace lockstep::runtime

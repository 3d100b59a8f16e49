#include "runtime/parallel/gradient_reducer.h"

#include <algorithm>
#include <stdexcept>
#include <utility>

#include "runtime/kernels/elementwise.h"

namespace lockstep::runtime {

GradientReducer::GradientReducer(Collective& collective, ReductionPlan plan,
                                 std::vector<UnitSlices> layouts,
                                 std::vector<std::span<float>> slices, OnSliceFinal on_slice_final)
    : collective_(collective),
      plan_(std::move(plan)),
      layouts_(std::move(layouts)),
      slices_(std::move(slices)),
      on_slice_final_(std::move(on_slice_final)),
      units_(layouts_.size()) {}

float* GradientReducer::buffer(int64_t unit) {
  const auto index = static_cast<size_t>(unit);
  UnitState& state = units_[index];
  if (state.current.data() == nullptr) state.current = pool_.take(layouts_[index].padded_elems);
  return state.current.data();
}

void GradientReducer::ready(int64_t unit) {
  UnitState& state = units_[static_cast<size_t>(unit)];
  if (state.current.data() == nullptr) {
    throw std::logic_error("no gradient buffer of unit " + std::to_string(unit) + " was taken");
  }
  const std::vector<int64_t>& root_leaves =
      plan_.root_leaves[static_cast<size_t>(collective_.rank())];
  state.counter.push(std::exchange(state.current, FloatBuffer()), pool_);
  if (state.counter.num_leaves() < root_leaves[state.roots.size()]) return;
  state.roots.push_back(state.counter.take_sum(pool_));
  if (state.roots.size() == root_leaves.size()) begin_exchange(unit);
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

void GradientReducer::begin_exchange(int64_t unit) {
  if (exchanges_.size() == kMaxExchanges) finish_oldest_exchange();
  const auto index = static_cast<size_t>(unit);
  const auto padded_elems = static_cast<size_t>(layouts_[index].padded_elems);
  const std::string name = "gradient of unit " + std::to_string(unit);
  Exchange& exchange = exchanges_.emplace_back();
  exchange.unit = unit;
  exchange.roots = std::exchange(units_[index].roots, {});
  exchange.values = pool_.take(plan_.num_rounds * layouts_[index].padded_elems);
  for (int64_t round = 0; round < plan_.num_rounds; ++round) {
    // A rank with fewer roots than others takes part with one that nobody adds again.
    const size_t root = std::min(static_cast<size_t>(round), exchange.roots.size() - 1);
    const std::span<float> values =
        exchange.values.elems().subspan(static_cast<size_t>(round) * padded_elems, padded_elems);
    exchange.rounds.push_back(
        collective_.all_to_all(exchange.roots[root].bytes(), std::as_writable_bytes(values), name));
  }
}

void GradientReducer::finish_oldest_exchange() {
  Exchange exchange = std::move(exchanges_.front());
  exchanges_.pop_front();
  for (const PendingPtr& round : exchange.rounds) round->wait();
  exchange.rounds.clear();
  for (FloatBuffer& root : exchange.roots) pool_.give_back(std::move(root));
  const int64_t slice_elems = layouts_[static_cast<size_t>(exchange.unit)].slice_elems;
  for (const Addition& addition : plan_.additions) {
    add_in_place(slice_elems, exchange.values.data() + addition.source * slice_elems,
                 exchange.values.data() + addition.target * slice_elems);
  }
  add_slice_sum(exchange.unit, std::move(exchange.values));
}

void GradientReducer::add_slice_sum(int64_t unit, FloatBuffer values) {
  const auto index = static_cast<size_t>(unit);
  const std::span<float> target = slices_[index];
  PartialSums& counter = units_[index].slice_counter;
  const bool is_last = counter.num_leaves() + 1 == plan_.num_exchanges;
  if (is_last && plan_.num_exchanges == 1) {
    std::copy_n(values.data(), target.size(), target.data());  // the tree of one leaf
  } else {
    FloatBuffer leaf = pool_.take(layouts_[index].slice_elems);
    std::copy_n(values.data(), target.size(), leaf.data());
    counter.push(std::move(leaf), pool_);
  }
  pool_.give_back(std::move(values));
  if (!is_last) return;
  if (counter.num_leaves() > 0) {
    FloatBuffer sum = counter.take_sum(pool_);
    std::copy_n(sum.data(), target.size(), target.data());
    pool_.give_back(std::move(sum));
  }
  on_slice_final_(unit);
}

}  // namespace lockstep::runtime

#include "runtime/parallel/gradient_reducer.h"

#include <algorithm>
#include <stdexcept>
#include <utility>

#include "runtime/kernels/elementwise.h"

namespace lockstep::runtime {

GradientReducer::GradientReducer(Collective& collective, ReducerOptions options,
                                 OnSliceFinal on_slice_final)
    : collective_(collective),
      plan_(std::move(options.plan)),
      layouts_(std::move(options.layouts)),
      sharded_(options.sharded),
      on_slice_final_(std::move(on_slice_final)),
      units_(layouts_.size()) {
  if (!sharded_ && plan_.num_exchanges != 1) {
    throw std::invalid_argument("whole gradients are exchanged once per step");
  }
  for (size_t unit = 0; unit < units_.size(); ++unit) {
    units_[unit].gradient = std::move(options.gradients[unit]);
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
  give_back_roots(exchange);
  const int64_t slice_elems = layouts_[static_cast<size_t>(exchange.unit)].slice_elems;
  for (const Addition& addition : plan_.additions) {
    add_in_place(slice_elems, exchange.values.data() + addition.source * slice_elems,
                 exchange.values.data() + addition.target * slice_elems);
  }
  add_slice_sum(exchange.unit, exchange.values);
  pool_.give_back(std::move(exchange.values));
}

// The oldest root of a whole gradient lies where the final sum goes.
void GradientReducer::give_back_roots(Exchange& exchange) {
  for (FloatBuffer& root : exchange.roots) {
    FloatBuffer& gradient = units_[static_cast<size_t>(exchange.unit)].gradient;
    if (!sharded_ && gradient.data() == nullptr) {
      gradient = std::move(root);
    } else {
      pool_.give_back(std::move(root));
    }
  }
}

void GradientReducer::add_slice_sum(int64_t unit, const FloatBuffer& values) {
  const auto index = static_cast<size_t>(unit);
  const int64_t slice_elems = layouts_[index].slice_elems;
  UnitState& state = units_[index];
  if (!sharded_) {
    std::copy_n(values.data(), slice_elems,
                state.gradient.data() + collective_.rank() * slice_elems);
    on_slice_final_(unit);
    return;
  }
  const bool is_oldest = state.gradient.data() != nullptr;
  FloatBuffer leaf =
      is_oldest ? std::exchange(state.gradient, FloatBuffer()) : pool_.take(slice_elems);
  std::copy_n(values.data(), slice_elems, leaf.data());
  state.slice_counter.push(std::move(leaf), pool_);
  if (state.slice_counter.num_leaves() < plan_.num_exchanges) return;
  state.gradient = state.slice_counter.take_sum(pool_);
  on_slice_final_(unit);
}

}  // namespace lockstep::runtime

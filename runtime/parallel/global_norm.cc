#include "runtime/parallel/global_norm.h"

#include <algorithm>
#include <cstddef>

#include "runtime/kernels/elementwise.h"

namespace lockstep::runtime {
namespace {

int64_t num_chunks(int64_t num_elems) {
  return (num_elems + kNormChunkElems - 1) / kNormChunkElems;
}

}  // namespace

GlobalNorm::GlobalNorm(Collective& collective, std::span<const int64_t> unit_elems)
    : collective_(collective), layouts_(plan_units(unit_elems, collective.world_size())) {
  int64_t total_chunks = 0;
  for (const UnitSlices& layout : layouts_) {
    rank_elems_ += 1 + num_chunks(layout.slice_elems);
    total_chunks += num_chunks(layout.num_elems);
  }
  gathered_.resize(static_cast<size_t>(rank_elems_ * collective.world_size()));
  ordered_.resize(static_cast<size_t>(total_chunks));
}

GradientNorm GlobalNorm::compute(std::span<const ParamShard> owned, double clip,
                                 double loss_scale) {
  const std::span<double> own = std::span(gathered_).subspan(
      static_cast<size_t>(collective_.rank() * rank_elems_), static_cast<size_t>(rank_elems_));
  double* record = own.data();
  for (size_t unit = 0; unit < layouts_.size(); ++unit) {
    const std::span<const float> gradient = owned[unit].gradient;
    record[0] = static_cast<double>(num_chunks(owned[unit].begin_elem));  // before it
    sum_squares_chunks(static_cast<int64_t>(gradient.size()), gradient.data(), record + 1);
    record += 1 + num_chunks(layouts_[unit].slice_elems);
  }
  collective_
      .all_gather(std::as_bytes(own), std::as_writable_bytes(std::span(gathered_)),
                  "squared gradients")
      ->wait();

  // Which rank owns which slice is the strategy's affair: every record says where it belongs.
  const double* from = gathered_.data();
  for (int rank = 0; rank < collective_.world_size(); ++rank) {
    double* unit_sums = ordered_.data();
    for (const UnitSlices& layout : layouts_) {
      const int64_t unit_chunks = num_chunks(layout.num_elems);
      const int64_t slice_chunks = num_chunks(layout.slice_elems);
      const auto first = static_cast<int64_t>(from[0]);
      if (first < unit_chunks) {
        std::copy_n(from + 1, std::min(slice_chunks, unit_chunks - first), unit_sums + first);
      }
      from += 1 + slice_chunks;
      unit_sums += unit_chunks;
    }
  }
  return gradient_norm(ordered_, clip, loss_scale);
}

}  // namespace lockstep::runtime

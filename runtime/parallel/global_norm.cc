#include "runtime/parallel/global_norm.h"

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
    rank_chunks_ += num_chunks(layout.slice_elems);
    total_chunks += num_chunks(layout.num_elems);
  }
  gathered_.resize(static_cast<size_t>(rank_chunks_ * collective.world_size()));
  ordered_.reserve(static_cast<size_t>(total_chunks));
}

GradientNorm GlobalNorm::compute(std::span<const ParamShard> owned, double clip) {
  const auto rank_chunks = static_cast<size_t>(rank_chunks_);
  const std::span<double> own = std::span(gathered_).subspan(
      static_cast<size_t>(collective_.rank()) * rank_chunks, rank_chunks);
  size_t begin = 0;
  for (size_t unit = 0; unit < layouts_.size(); ++unit) {
    const std::span<const float> gradient = owned[unit].gradient;
    sum_squares_chunks(static_cast<int64_t>(gradient.size()), gradient.data(), own.data() + begin);
    begin += static_cast<size_t>(num_chunks(layouts_[unit].slice_elems));
  }
  collective_
      .all_gather(std::as_bytes(own), std::as_writable_bytes(std::span(gathered_)),
                  "squared gradients")
      ->wait();

  ordered_.clear();
  begin = 0;
  for (const UnitSlices& layout : layouts_) {
    for (int rank = 0; rank < collective_.world_size(); ++rank) {
      const auto first = gathered_.begin() + rank * rank_chunks_ + static_cast<int64_t>(begin);
      ordered_.insert(ordered_.end(), first, first + num_chunks(layout.owned(rank).num_elems()));
    }
    begin += static_cast<size_t>(num_chunks(layout.slice_elems));
  }
  return gradient_norm(ordered_, clip);
}

}  // namespace lockstep::runtime

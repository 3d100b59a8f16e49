#include "runtime/parallel/resident_weights.h"

#include <string>
#include <utility>

namespace lockstep::runtime {

ResidentWeights::ResidentWeights(Collective& collective, std::vector<std::span<std::byte>> units,
                                 bool gathers, std::vector<bool> frozen)
    : collective_(collective),
      units_(std::move(units)),
      gathers_(gathers),
      frozen_(std::move(frozen)),
      pending_(units_.size()) {}

const std::byte* ResidentWeights::acquire(int64_t unit, int64_t /*next*/) {
  const auto index = static_cast<size_t>(unit);
  if (pending_[index] != nullptr) {
    pending_[index]->wait();
    pending_[index].reset();
  }
  return units_[index].data();
}

void ResidentWeights::release(int64_t /*unit*/) {}

void ResidentWeights::refresh() {
  if (!gathers_) return;
  const auto world_size = static_cast<size_t>(collective_.world_size());
  for (size_t unit = 0; unit < units_.size(); ++unit) {
    if (is_complete_ && !frozen_.empty() && frozen_[unit]) continue;
    const std::span<std::byte> full = units_[unit];
    const size_t slice_bytes = full.size() / world_size;
    const std::span<std::byte> own =
        full.subspan(static_cast<size_t>(collective_.rank()) * slice_bytes, slice_bytes);
    pending_[unit] = collective_.all_gather(own, full, "weights of unit " + std::to_string(unit));
  }
  is_complete_ = true;
}

}  // namespace lockstep::runtime

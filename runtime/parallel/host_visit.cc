#include "runtime/parallel/host_visit.h"

#include <algorithm>
#include <cstddef>
#include <vector>

#include "runtime/kernels/device.h"
#include "runtime/kernels/elementwise.h"

namespace lockstep::runtime {
namespace {

constexpr int64_t kPieceElems = 1024 * kNormChunkElems;

// A part of a device's array, and room for its copy.
class Window {
 public:
  // Makes it a window on `count` elements of `whole` from begin_elem on; on none if it is empty.
  std::span<float> move_to(std::span<float> whole, int64_t begin_elem, int64_t count) {
    on_device_ = {};
    if (whole.empty()) return {};
    on_device_ = whole.subspan(static_cast<size_t>(begin_elem), static_cast<size_t>(count));
    floats_.resize(on_device_.size());
    return floats_;
  }
  void fetch() {
    copy_floats(static_cast<int64_t>(on_device_.size()), on_device_.data(), floats_.data());
  }
  void put_back() const {
    copy_floats(static_cast<int64_t>(on_device_.size()), floats_.data(), on_device_.data());
  }

 private:
  std::span<float> on_device_;
  std::vector<float> floats_;
};

}  // namespace

void visit_on_host(std::span<const ParamShard> shards, StateAccess access, const UseShard& use) {
  const bool fills = access == StateAccess::kFill;
  Window weights;
  Window moment1;
  Window moment2;
  for (const ParamShard& shard : shards) {
    const auto num_elems = static_cast<int64_t>(shard.weights.size());
    for (int64_t begin = 0; begin < num_elems; begin += kPieceElems) {
      const int64_t count = std::min(kPieceElems, num_elems - begin);
      ParamShard part = {.unit = shard.unit,
                         .begin_elem = shard.begin_elem + begin,
                         .weights = weights.move_to(shard.weights, begin, count),
                         .gradient = {},
                         .moment1 = {},
                         .moment2 = {}};
      std::vector<Window*> seen = {&weights};
      if (access != StateAccess::kReadWeights) {
        part.moment1 = moment1.move_to(shard.moment1, begin, count);
        part.moment2 = moment2.move_to(shard.moment2, begin, count);
        seen.insert(seen.end(), {&moment1, &moment2});
      }
      if (!fills) std::for_each(seen.begin(), seen.end(), [](Window* window) { window->fetch(); });
      use(part);
      if (fills) {
        std::for_each(seen.begin(), seen.end(), [](const Window* window) { window->put_back(); });
      }
    }
  }
}

}  // namespace lockstep::runtime

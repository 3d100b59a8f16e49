#include "runtime/model/dropout.h"

#include <cmath>

#include "runtime/kernels/elementwise.h"

namespace lockstep::runtime {
namespace {

constexpr uint64_t kStream = 0xA0761D6478BD642F;  // apart from initial weights
constexpr int kModuleBits = 8;

}  // namespace

void apply_dropout(const DropoutMask& mask, int64_t n, float* x) {
  const DropoutDraw draw = {
      .key = mask.place.seed ^ kStream,
      .counter = {static_cast<uint32_t>((mask.layer << kModuleBits) | mask.module),
                  static_cast<uint32_t>(mask.place.step),
                  static_cast<uint32_t>(mask.place.micro_batch)},
      .dropped_below = static_cast<uint32_t>(std::lround(mask.rate * 0x1p16)),
      .kept = static_cast<float>(1 / (1 - mask.rate))};
  dropout(draw, n, x);
}

}  // namespace lockstep::runtime

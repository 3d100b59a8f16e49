// A loss of whole stretches of text in place of a sum over tokens.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

namespace lockstep::runtime {

// A function of one value of each span of rows. Of a head with a vocabulary that is the sum of the
// cross-entropy over the labels of the span: of a sequence the negative logarithm of its
// probability; of a head with a score it is that of the span's last row.
// The gradient of a row is that of its own value times the weight of its span. So a head makes
// logits twice where there are gradients.
struct SpanLoss {
  // Span i is rows [ends[i - 1], ends[i]) of the micro-batch, the first from 0; ascending, and the
  // last one is all rows.
  std::vector<int64_t> ends;
  // Returns the loss of the micro-batch.
  //   sums:    [ends.size()].
  //   weights: [ends.size()]; written: the derivative of the loss by each sum.
  std::function<double(std::span<const double> sums, std::span<double> weights)> weigh;
};

}  // namespace lockstep::runtime

// The loss curve as a picture.
#pragma once

#include <string>
#include <vector>

#include "runtime/train/metrics_file.h"

namespace lockstep::runtime {

// An SVG line chart of loss over step with axes and ticks. `points` are in ascending step; long
// curves are thinned to what the picture can show. Without points the chart says so.
std::string draw_loss(const std::string& title, const std::vector<LossPoint>& points);

// Tick positions at round numbers (1, 2 or 5 times a power of ten) that lie in [low, high]; about
// `count` of them.
std::vector<double> round_ticks(double low, double high, int count);

}  // namespace lockstep::runtime

// A line chart as SVG that takes its colours from the page: classes axis, grid, mark and line0..5
// (area0..5 of a stack).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "operator/runs/run_record.h"

namespace lockstep::runs {

struct ChartLine {
  std::string name;  // in the legend
  std::vector<Point> points;
};

struct Chart {
  std::string title;
  std::string unit;  // of the values; may be empty
  std::vector<ChartLine> lines;
  bool from_zero = false;   // the axis begins at 0 rather than at the least value
  bool is_stacked = false;  // lines are parts of a whole, of the same steps, drawn as areas
  bool is_bytes = false;    // tick labels are amounts of memory
  // A first step may take a hundred times as long as any other, and would leave nothing else to
  // see: the axis ends where it must for 95 of 100 points, and the caption tells the peak.
  bool cuts_peaks = false;
  std::vector<int64_t> marks;  // steps with a vertical line: an attempt went on from there
};

// <figure> with an inline <svg> and its legend. Long lines are thinned to what the picture can
// show, without losing a peak. Lines without points are left out; a chart without any says so.
std::string draw_chart(const Chart& chart);

}  // namespace lockstep::runs

#include "operator/runs/chart.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>

#include "operator/runs/html_text.h"

namespace lockstep::runs {
namespace {

constexpr double kWidth = 640;
constexpr double kHeight = 240;
constexpr double kLeft = 64;  // margins around the plot
constexpr double kRight = 12;
constexpr double kTop = 10;
constexpr double kBottom = 28;
constexpr std::size_t kMaxPoints = 800;
constexpr int kNumTicks = 5;

struct Range {
  double low = 0;
  double high = 1;
};

struct Axes {
  Range steps, values;
  double x(double step) const {
    return kLeft + (step - steps.low) / (steps.high - steps.low) * (kWidth - kLeft - kRight);
  }
  double y(double value) const {
    const double share = (value - values.low) / (values.high - values.low);
    return kHeight - kBottom - share * (kHeight - kTop - kBottom);
  }
};

std::string coordinate(double value) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%.1f", value);
  return text.data();
}

bool is_lower(const Point& a, const Point& b) {
  return a.value < b.value;
}

// Of each stretch of steps the first, lowest, highest and last point.
std::vector<Point> thinned(const std::vector<Point>& points) {
  if (points.size() <= kMaxPoints) return points;
  const std::size_t stride = (4 * points.size() + kMaxPoints - 1) / kMaxPoints;
  std::vector<Point> kept;
  kept.reserve(kMaxPoints + 4);
  for (std::size_t begin = 0; begin < points.size(); begin += stride) {
    const auto from = points.begin() + static_cast<std::ptrdiff_t>(begin);
    const auto to =
        points.begin() + static_cast<std::ptrdiff_t>(std::min(begin + stride, points.size()));
    const auto [low, high] = std::minmax_element(from, to, is_lower);
    for (const auto one : {from, std::min(low, high), std::max(low, high), to - 1}) {
      if (kept.empty() || kept.back().step < one->step) kept.push_back(*one);
    }
  }
  return kept;
}

// Round numbers (1, 2 or 5 times a power of ten) inside the range.
std::vector<double> round_ticks(const Range& range) {
  const double raw = (range.high - range.low) / kNumTicks;
  const double power = std::pow(10.0, std::floor(std::log10(raw)));
  double distance = 10 * power;
  for (const double factor : {5.0, 2.0, 1.0}) {
    if (raw <= factor * power) distance = factor * power;
  }
  const double first = std::ceil(range.low / distance);
  std::vector<double> ticks;
  ticks.reserve(2 * kNumTicks);
  for (int i = 0; i < 2 * kNumTicks; ++i) {
    const double tick = (first + i) * distance;
    if (tick <= range.high) ticks.push_back(tick);
  }
  return ticks;
}

// The same for amounts of memory: round in the unit in which they are written.
std::vector<double> byte_ticks(const Range& range) {
  double unit = 1;
  while (range.high / unit >= 1024) unit *= 1024;
  std::vector<double> ticks = round_ticks({range.low / unit, range.high / unit});
  for (double& tick : ticks) tick *= unit;
  return ticks;
}

// Where the axis ends if it may leave out rare peaks: above 95 of 100 points of every line.
double usual_height(const std::vector<ChartLine>& lines) {
  double height = 0;
  for (const ChartLine& line : lines) {
    if (line.points.empty()) continue;
    std::vector<Point> points = line.points;
    const auto rank = points.begin() + static_cast<std::ptrdiff_t>((points.size() - 1) * 95 / 100);
    std::nth_element(points.begin(), rank, points.end(), is_lower);
    height = std::max(height, rank->value);
  }
  return 1.2 * height;
}

// The highest point of all lines. Precondition: there is one.
Point peak_of(const std::vector<ChartLine>& lines) {
  Point peak{0, -1e308};
  for (const ChartLine& line : lines) {
    for (const Point& point : line.points) peak = std::max(peak, point, is_lower);
  }
  return peak;
}

// A range of some width, whatever the values.
Range widened(Range range) {
  if (range.high > range.low) return range;
  const double margin = range.low == 0 ? 1 : std::abs(range.low) * 0.05;
  return {range.low - margin, range.high + margin};
}

Axes make_axes(const Chart& chart, const std::vector<ChartLine>& lines) {
  Axes axes{{1e300, -1e300}, {1e300, -1e300}};
  for (const ChartLine& line : lines) {
    for (const Point& point : line.points) {
      const auto step = static_cast<double>(point.step);
      axes.steps = {std::min(axes.steps.low, step), std::max(axes.steps.high, step)};
      axes.values = {std::min(axes.values.low, point.value),
                     std::max(axes.values.high, point.value)};
    }
  }
  if (chart.from_zero || chart.is_stacked) axes.values.low = std::min(0.0, axes.values.low);
  axes.steps = widened(axes.steps);
  axes.values = widened(axes.values);
  return axes;
}

// Sums of the parts up to each, where all parts have the same steps.
std::vector<ChartLine> stacked(std::vector<ChartLine> lines) {
  for (std::size_t i = 1; i < lines.size(); ++i) {
    const std::size_t size = std::min(lines[i].points.size(), lines[i - 1].points.size());
    lines[i].points.resize(size);
    for (std::size_t at = 0; at < size; ++at) {
      lines[i].points[at].value += lines[i - 1].points[at].value;
    }
  }
  return lines;
}

std::string draw_segment(double x1, double y1, double x2, double y2, const char* style) {
  return "<line class=\"" + std::string(style) + "\" x1=\"" + coordinate(x1) + "\" y1=\"" +
         coordinate(y1) + "\" x2=\"" + coordinate(x2) + "\" y2=\"" + coordinate(y2) + "\"/>";
}

std::string draw_label(double x, double y, const char* anchor, const std::string& text) {
  return "<text x=\"" + coordinate(x) + "\" y=\"" + coordinate(y) + "\" text-anchor=\"" + anchor +
         "\">" + html_text(text) + "</text>";
}

std::string draw_axes(const Chart& chart, const Axes& axes) {
  std::string svg;
  for (const double value : chart.is_bytes ? byte_ticks(axes.values) : round_ticks(axes.values)) {
    const double y = axes.y(value);
    svg += draw_segment(kLeft, y, kWidth - kRight, y, "grid");
    svg += draw_label(kLeft - 6, y + 4, "end",
                      chart.is_bytes ? short_bytes(value) : short_number(value, 6));
  }
  for (const double step : round_ticks(axes.steps)) {
    if (step != std::floor(step)) continue;
    svg += draw_label(axes.x(step), kHeight - 8, "middle", short_number(step, 15));
  }
  for (const int64_t mark : chart.marks) {
    const auto step = static_cast<double>(mark);
    if (step < axes.steps.low || step > axes.steps.high) continue;
    svg += draw_segment(axes.x(step), kTop, axes.x(step), kHeight - kBottom, "mark");
  }
  const double floor = kHeight - kBottom;
  return svg + draw_segment(kLeft, floor, kWidth - kRight, floor, "axis") +
         draw_segment(kLeft, kTop, kLeft, floor, "axis");
}

std::string path_of(const std::vector<Point>& points, const Axes& axes) {
  std::string path;
  for (const Point& point : points) {
    path += path.empty() ? "" : " ";
    path += coordinate(axes.x(static_cast<double>(point.step))) + "," +
            coordinate(axes.y(std::min(point.value, axes.values.high)));
  }
  return path;
}

std::string draw_line(const ChartLine& line, std::size_t index, const Axes& axes) {
  const std::string style = "line" + std::to_string(index);
  if (line.points.size() > 1) {
    return "<polyline class=\"" + style + "\" points=\"" + path_of(line.points, axes) + "\"/>";
  }
  const Point& point = line.points.front();
  return "<circle class=\"" + style + "\" cx=\"" +
         coordinate(axes.x(static_cast<double>(point.step))) + "\" cy=\"" +
         coordinate(axes.y(point.value)) + "\" r=\"3\"/>";
}

// From the axis up to the line; what lies below is drawn over it.
std::string draw_area(const ChartLine& line, std::size_t index, const Axes& axes) {
  const auto x = [&axes](const Point& p) {
    return coordinate(axes.x(static_cast<double>(p.step)));
  };
  const std::string floor = coordinate(axes.y(0));
  return "<polygon class=\"area" + std::to_string(index) + "\" points=\"" + x(line.points.front()) +
         "," + floor + " " + path_of(line.points, axes) + " " + x(line.points.back()) + "," +
         floor + "\"/>";
}

std::string draw_legend(const std::vector<ChartLine>& lines) {
  if (lines.size() < 2) return "";
  std::string legend = "<p class=\"legend\">";
  for (std::size_t i = 0; i < lines.size(); ++i) {
    legend += "<span><i class=\"key" + std::to_string(i) + "\"></i>" + html_text(lines[i].name) +
              "</span>";
  }
  return legend + "</p>";
}

std::string draw_caption(const Chart& chart, const std::string& note) {
  std::string small = chart.unit;
  if (!note.empty()) small += (small.empty() ? "" : ", ") + note;
  return "<figure><figcaption>" + html_text(chart.title) +
         (small.empty() ? "" : " <small>" + html_text(small) + "</small>") + "</figcaption>";
}

}  // namespace

std::string draw_chart(const Chart& chart) {
  const std::vector<ChartLine> whole = chart.is_stacked ? stacked(chart.lines) : chart.lines;
  std::vector<ChartLine> lines;
  for (const ChartLine& line : whole) {
    if (!line.points.empty()) lines.push_back({line.name, thinned(line.points)});
  }
  if (lines.empty()) {
    return draw_caption(chart, "") + "<p class=\"none\">nothing was logged</p></figure>\n";
  }
  Axes axes = make_axes(chart, lines);
  std::string note;
  const double usual = usual_height(whole);
  // A peak of less than twice the usual height hides nothing.
  if (chart.cuts_peaks && usual > axes.values.low && 2 * usual < axes.values.high) {
    const Point peak = peak_of(whole);
    note = "peak " + short_number(peak.value, 3) + " at step " + std::to_string(peak.step);
    axes.values.high = usual;
  }
  std::string figure = draw_caption(chart, note);
  if (!std::isfinite(axes.values.high - axes.values.low)) {
    return figure + "<p class=\"none\">the values are too large to draw</p></figure>\n";
  }
  figure += "<svg viewBox=\"0 0 640 240\" role=\"img\" aria-label=\"" + html_text(chart.title) +
            " over steps\">" + draw_axes(chart, axes);
  for (std::size_t i = 0; i < lines.size(); ++i) {
    // A sum covers the sums below it, so it comes before them.
    const std::size_t index = chart.is_stacked ? lines.size() - 1 - i : i;
    figure += chart.is_stacked ? draw_area(lines[index], index, axes)
                               : draw_line(lines[index], index, axes);
  }
  return figure + "</svg>" + draw_legend(lines) + "</figure>\n";
}

}  // namespace lockstep::runs

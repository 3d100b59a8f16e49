#include "runtime/train/loss_svg.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>

namespace lockstep::runtime {
namespace {

constexpr double kWidth = 800;
constexpr double kHeight = 400;
constexpr double kLeft = 70;  // margins around the plot
constexpr double kRight = 20;
constexpr double kTop = 40;
constexpr double kBottom = 50;
constexpr std::size_t kMaxPoints = 1000;

struct Range {
  double low = 0;
  double high = 1;
};

struct Axes {
  Range steps;
  Range losses;
  double x(double step) const {
    return kLeft + (step - steps.low) / (steps.high - steps.low) * (kWidth - kLeft - kRight);
  }
  double y(double loss) const {
    return kHeight - kBottom -
           (loss - losses.low) / (losses.high - losses.low) * (kHeight - kTop - kBottom);
  }
};

std::string number(double value, const char* format) {
  std::array<char, 32> text{};
  const int size = std::snprintf(text.data(), text.size(), format, value);
  return std::string(text.data(), static_cast<std::size_t>(size));
}

std::string coordinate(double value) {
  return number(value, "%.2f");
}

std::string escape(const std::string& text) {
  std::string escaped;
  for (const char c : text) {
    if (c == '&') {
      escaped += "&amp;";
    } else if (c == '<') {
      escaped += "&lt;";
    } else {
      escaped += c;
    }
  }
  return escaped;
}

std::string line(double x1, double y1, double x2, double y2, const std::string& color) {
  return "  <line x1=\"" + coordinate(x1) + "\" y1=\"" + coordinate(y1) + "\" x2=\"" +
         coordinate(x2) + "\" y2=\"" + coordinate(y2) + "\" stroke=\"" + color + "\"/>\n";
}

std::string label(double x, double y, const std::string& anchor, const std::string& text) {
  return "  <text x=\"" + coordinate(x) + "\" y=\"" + coordinate(y) + "\" text-anchor=\"" + anchor +
         "\">" + escape(text) + "</text>\n";
}

Axes fit_axes(const std::vector<LossPoint>& points) {
  const auto by_loss = [](const LossPoint& a, const LossPoint& b) { return a.loss < b.loss; };
  const auto [low, high] = std::minmax_element(points.begin(), points.end(), by_loss);
  const double margin = std::max((high->loss - low->loss) * 0.05, 1e-3);
  const auto first = static_cast<double>(points.front().step);
  const auto last = static_cast<double>(points.back().step);
  return {.steps = {first, std::max(last, first + 1)},
          .losses = {low->loss - margin, high->loss + margin}};
}

std::string draw_axes(const Axes& axes) {
  std::string svg;
  for (const double loss : round_ticks(axes.losses.low, axes.losses.high, 6)) {
    svg += line(kLeft, axes.y(loss), kWidth - kRight, axes.y(loss), "#e0e0e0");
    svg += label(kLeft - 8, axes.y(loss) + 4, "end", number(loss, "%.4g"));
  }
  for (const double step : round_ticks(axes.steps.low, axes.steps.high, 8)) {
    svg += line(axes.x(step), kHeight - kBottom, axes.x(step), kHeight - kBottom + 5, "#606060");
    svg += label(axes.x(step), kHeight - kBottom + 20, "middle", number(step, "%.10g"));
  }
  svg += line(kLeft, kTop, kLeft, kHeight - kBottom, "#606060");
  svg += line(kLeft, kHeight - kBottom, kWidth - kRight, kHeight - kBottom, "#606060");
  svg += label((kLeft + kWidth - kRight) / 2, kHeight - 10, "middle", "step");
  return svg + label(kLeft, kTop - 8, "end", "loss");
}

std::string draw_curve(const Axes& axes, const std::vector<LossPoint>& points) {
  const std::size_t stride = (points.size() + kMaxPoints - 1) / kMaxPoints;
  std::string path;
  const auto add = [&](const LossPoint& point) {
    if (!path.empty()) path += ' ';
    path += coordinate(axes.x(static_cast<double>(point.step)));
    path += ',';
    path += coordinate(axes.y(point.loss));
  };
  for (std::size_t i = 0; i < points.size(); i += stride) add(points[i]);
  if ((points.size() - 1) % stride != 0) add(points.back());
  return "  <polyline fill=\"none\" stroke=\"#1f77b4\" stroke-width=\"2\" points=\"" + path +
         "\"/>\n";
}

}  // namespace

std::vector<double> round_ticks(double low, double high, int count) {
  const double raw = (high - low) / count;
  const double power = std::pow(10.0, std::floor(std::log10(raw)));
  double distance = 10 * power;
  for (const double factor : {1.0, 2.0, 5.0}) {
    if (raw <= factor * power) {
      distance = factor * power;
      break;
    }
  }
  std::vector<double> ticks;
  for (double i = std::ceil(low / distance); i * distance <= high; i += 1) {
    ticks.push_back(i * distance);
  }
  return ticks;
}

std::string draw_loss(const std::string& title, const std::vector<LossPoint>& points) {
  std::string svg =
      "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 800 400\" "
      "font-family=\"sans-serif\" font-size=\"12\" fill=\"#303030\">\n"
      "  <rect width=\"800\" height=\"400\" fill=\"#ffffff\"/>\n";
  svg += "  <text x=\"400\" y=\"22\" text-anchor=\"middle\" font-size=\"15\">" + escape(title) +
         "</text>\n";
  if (points.empty()) {
    svg += label(kWidth / 2, kHeight / 2, "middle", "no steps yet");
  } else {
    const Axes axes = fit_axes(points);
    svg += draw_axes(axes) + draw_curve(axes, points);
  }
  return svg + "</svg>\n";
}

}  // namespace lockstep::runtime

#include "operator/cli/progress_view.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>

#include <nlohmann/json.hpp>

#include "operator/api/codec.h"
#include "operator/cli/top_view.h"

namespace lockstep::cli {

namespace {

constexpr int kBarWidth = 20;
constexpr int kLossCurveWidth = 10;
constexpr std::size_t kMostLosses = 512;

std::string short_count(double value) {
  char text[32];
  if (value >= 1000) {
    std::snprintf(text, sizeof text, "%.1fk", value / 1000);
  } else {
    std::snprintf(text, sizeof text, "%.0f", value);
  }
  return text;
}

// "25.6 GFLOP/s (41 % MFU)"
std::string flops_text(const common::JobProgress& progress) {
  const bool is_tera = *progress.flops_per_second >= 1e12;
  char text[64];
  std::snprintf(text, sizeof text, "%.1f %cFLOP/s",
                *progress.flops_per_second / (is_tera ? 1e12 : 1e9), is_tera ? 'T' : 'G');
  std::string result = text;
  if (progress.mfu) {
    std::snprintf(text, sizeof text, " (%.0f %% MFU)", 100 * *progress.mfu);
    result += text;
  }
  return result;
}

// "reference 120/4000"
std::string phase_text(const common::JobProgress& progress) {
  if (!progress.phase_progress) return progress.phase;
  const common::PhaseProgress& work = *progress.phase_progress;
  return progress.phase + " " + std::to_string(work.done) +
         (work.total > 0 ? "/" + std::to_string(work.total) : "");
}

}  // namespace

std::string render_bar(const common::JobProgress& progress, int width,
                       const std::vector<double>& losses) {
  const double share = progress.total_steps > 0 ? static_cast<double>(progress.step) /
                                                      static_cast<double>(progress.total_steps)
                                                : 0;
  std::string bar(static_cast<size_t>(width), '-');
  std::fill_n(bar.begin(), std::clamp(static_cast<int>(share * width), 0, width), '#');
  std::string text = "[" + bar + "]  " + std::to_string(progress.step) + "/" +
                     std::to_string(progress.total_steps);
  if (progress.step == 0) return text + "  " + phase_text(progress);
  text += "  loss " + api::format_loss(progress.loss);
  if (!losses.empty()) text += " " + sparkline(losses, kLossCurveWidth);
  text += "  " + short_count(progress.tokens_per_second) + " tok/s";
  if (progress.flops_per_second) text += "  " + flops_text(progress);
  if (progress.eta_seconds) {
    text += "  eta " + api::format_duration(std::chrono::seconds(*progress.eta_seconds));
  }
  return text;
}

std::string render_line(const common::JobProgress& progress) {
  std::string text =
      "step=" + std::to_string(progress.step) +
      " total_steps=" + std::to_string(progress.total_steps) + " loss=" + progress.loss +
      " tokens_per_second=" + std::to_string(static_cast<int64_t>(progress.tokens_per_second));
  if (progress.flops_per_second) {
    text += " flops_per_second=" + std::to_string(static_cast<int64_t>(*progress.flops_per_second));
  }
  if (progress.mfu) text += " mfu=" + nlohmann::json(*progress.mfu).dump();
  if (progress.eta_seconds) text += " eta_seconds=" + std::to_string(*progress.eta_seconds);
  return text;
}

void ProgressView::show(const common::JobProgress& progress) {
  if (terminal_) {
    remember(progress);
    clear_bar();
    out_ << render_bar(progress, kBarWidth, losses_) << std::flush;
    bar_drawn_ = true;
    return;
  }
  // Lines are kept, so only one per twentieth of the run.
  const int64_t stride = std::max<int64_t>(1, progress.total_steps / 20);
  const bool due =
      !progress.loss.empty() &&
      (!last_step_ || progress.step >= *last_step_ + stride || progress.step < *last_step_);
  if (!due) return;
  last_step_ = progress.step;
  out_ << render_line(progress) << "\n" << std::flush;
}

void ProgressView::remember(const common::JobProgress& progress) {
  if (progress.loss.empty() || progress.step == last_step_) return;
  last_step_ = progress.step;
  losses_.push_back(std::strtod(progress.loss.c_str(), nullptr));
  if (losses_.size() < kMostLosses) return;
  for (std::size_t i = 0; i < kMostLosses / 2; ++i) losses_[i] = losses_[2 * i + 1];
  losses_.resize(kMostLosses / 2);
}

void ProgressView::show(const plan::Event& event) {
  clear_bar();
  out_ << (event.warning ? "warning: " : "") << event.reason << ": " << event.message << "\n"
       << std::flush;
}

void ProgressView::finish() {
  if (bar_drawn_) out_ << "\n" << std::flush;
  bar_drawn_ = false;
}

void ProgressView::clear_bar() {
  if (bar_drawn_) out_ << "\r\033[K";
  bar_drawn_ = false;
}

}  // namespace lockstep::cli

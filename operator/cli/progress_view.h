// What a person sees while a job runs: a progress bar on a terminal, key=value lines elsewhere.
#pragma once

#include <cstdint>
#include <optional>
#include <ostream>
#include <string>
#include <vector>

#include "operator/plan/plan.h"
#include "runtime/common/progress.h"

namespace lockstep::cli {

// "[#########---------------------]  30/100  loss 2.3147 CURVE  41.2k tok/s  25.6 GFLOP/s (41 %
// MFU)  eta 1m32s", without a line end.
//   losses: so far, for the curve; it is left out without any.
std::string render_bar(const common::JobProgress& progress, int width,
                       const std::vector<double>& losses = {});
// "step=30 total_steps=100 loss=2.3147 tokens_per_second=41200 flops_per_second=25600000000
// mfu=0.41 eta_seconds=92"; what is not known is left out.
std::string render_line(const common::JobProgress& progress);

class ProgressView {
 public:
  // `out` outlives the view; `terminal`: redraw one line in place.
  ProgressView(std::ostream& out, bool terminal) : out_(out), terminal_(terminal) {}

  void show(const common::JobProgress& progress);
  void show(const plan::Event& event);
  // Ends the line of the bar.
  void finish();

 private:
  void clear_bar();
  void remember(const common::JobProgress& progress);

  std::ostream& out_;
  const bool terminal_;
  bool bar_drawn_ = false;
  std::optional<int64_t> last_step_;
  std::vector<double> losses_;  // of steps that were seen; thinned out as they become many
};

}  // namespace lockstep::cli

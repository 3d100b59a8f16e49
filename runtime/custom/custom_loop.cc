#include "runtime/custom/custom_loop.h"

#include <cmath>
#include <new>
#include <string>
#include <utility>

#include <c10/util/Exception.h>

#include "runtime/custom/loop_state.h"
#include "runtime/train/exchange.h"
#include "runtime/train/exporting.h"
#include "runtime/train/run_error.h"
#include "runtime/train/saving.h"
#include "runtime/train/termination.h"
#include "runtime/train/train_step.h"

namespace lockstep::runtime {
namespace {

using common::StepPart;

// What goes wrong in a function is the user's to correct, and has a block.
template <typename Call>
auto in_block(const ModuleUnit& block, const Call& call) {
  try {
    return call();
  } catch (const c10::Error& error) {
    const std::string what = error.what_without_backtrace();
    if (what.find("can't allocate memory") != std::string::npos) throw std::bad_alloc();
    refuse("block '" + block.name() + "': " + what, "correct the block's function");
  }
}

}  // namespace

CustomLoop::CustomLoop(std::unique_ptr<State> state) : state_(std::move(state)) {}
CustomLoop::~CustomLoop() = default;

int64_t CustomLoop::step() const {
  return state_->s.step;
}

bool CustomLoop::is_done() const {
  return state_->was_finished || state_->s.step == state_->s.config().steps;
}

const std::vector<int64_t>& CustomLoop::micro_batches() const {
  static const std::vector<int64_t> none;
  return state_->was_finished ? none : state_->s.parallelism->micro_batches();
}

double CustomLoop::forward_backward(const TensorBatch& batch, int64_t num_items) {
  State& loop = *state_;
  RankState& s = loop.s;
  const size_t index = loop.computed.losses.size();
  if (is_done() || index == micro_batches().size() || num_items < 0) {
    refuse(
        "forward_backward() after the last micro-batch of a step or run, or with fewer "
        "than no items",
        "call it once for each of micro_batches(), then update()");
  }
  if (index == 0) s.collective->begin_step(s.step + 1);
  const size_t last = loop.blocks.size() - 1;
  const size_t first = loop.first_trained();
  std::vector<at::Tensor> inputs(last + 1);
  for (size_t block = 0; block < last; ++block) {
    const ModuleUnit& module = loop.blocks[block];
    s.clock->enter(StepPart::kForward, module.name());
    const ConstValues params = loop.unshard(block, loop.unit_after(block));
    inputs[block + 1] = in_block(
        module, [&] { return module.forward(loop.call(block, params, batch), inputs[block]); });
    loop.reshard(block);
    if (block < first) inputs[block] = at::Tensor();  // backward does not come to it
  }
  ModuleUnit::Backward result;
  double loss_sum = 0;
  for (size_t block = last + 1; block-- > first;) {
    const ModuleUnit& module = loop.blocks[block];
    s.clock->enter(StepPart::kBackward, module.name());
    const ConstValues params = loop.unshard(block, loop.unit_before(block, first));
    const at::Tensor dy = result.dx;
    const double scale = s.history.loss_scale.scale;
    result = in_block(module, [&] {
      return module.backward(loop.call(block, params, batch), inputs[block], dy, scale,
                             loop.gradient_buffer(block), block > first);
    });
    if (block == last) loss_sum = result.loss_sum;
    loop.reshard(block);
    loop.gradient_ready(block);
    inputs[block] = at::Tensor();
  }
  loop.computed.losses.push_back(loss_sum);
  loop.computed.num_items.push_back(num_items);
  s.clock->enter(StepPart::kData, "micro-batch");
  return loss_sum;
}

StepStats CustomLoop::update(double lr) {
  State& loop = *state_;
  RankState& s = loop.s;
  if (is_done() || loop.computed.losses.size() != micro_batches().size()) {
    refuse("update() after " + std::to_string(loop.computed.losses.size()) + " of " +
               std::to_string(micro_batches().size()) + " micro-batches of the step",
           "call forward_backward() once for each of micro_batches()");
  }
  if (!std::isfinite(lr) || lr < 0) {
    refuse("update() with a learning rate of " + std::to_string(lr), "give it one from 0 on");
  }
  s.clock->enter(StepPart::kBackward, "sums of gradients");
  s.parallelism->finish_backward();
  loop.computed.lr = lr;
  const StepStats stats = finish_step(s, std::exchange(loop.computed, {}), loop.stop.wished());
  loop.telemetry->step_done(stats);
  s.saver->advance(stats.saves);
  if (!stats.stop && !save_is_due(s)) {
    s.clock->begin_step(s.step + 1);
    return stats;
  }
  loop.board.set_phase("saving");
  begin_save(s);
  if (stats.stop) {
    s.saver->finish();
    throw RunError(preempted(s.step, true));
  }
  loop.board.set_phase("training");
  s.clock->begin_step(s.step + 1);
  return stats;
}

StepStats CustomLoop::update() {
  return update(state_->s.config().optimizer.lr);
}

double CustomLoop::evaluate(const TensorBatch& batch) {
  State& loop = *state_;
  if (loop.was_finished || !loop.computed.losses.empty()) {
    refuse("evaluate() within a step, or after finish()",
           "call it between update() and the next forward_backward()");
  }
  at::Tensor x;
  for (size_t block = 0; block < loop.blocks.size(); ++block) {
    const ModuleUnit& module = loop.blocks[block];
    const ModuleUnit::Call call{loop.unshard(block, loop.unit_after(block)), batch, {}};
    x = in_block(module, [&] { return module.evaluate(call, x); });
    loop.reshard(block);
  }
  loop.blocks.back().check_loss(x);
  loop.s.clock->begin_step(loop.s.step + 1);  // the evaluation is of no step
  return x.item<double>();
}

std::vector<double> CustomLoop::gather(double mine) {
  return gather_values(*state_->s.collective, mine, "values of all ranks");
}

void CustomLoop::finish() {
  State& loop = *state_;
  if (loop.was_finished) return;
  if (!loop.computed.losses.empty()) {
    refuse("finish() after " + std::to_string(loop.computed.losses.size()) + " of " +
               std::to_string(micro_batches().size()) + " micro-batches of a step",
           "call update() first, or do not begin a step that is not to be made");
  }
  RankState& s = loop.s;
  loop.board.set_phase("saving");
  if (s.step > 0 && s.saved_step != s.step) begin_save(s);
  s.saver->finish();
  loop.stop.release();
  loop.board.set_phase("exporting");
  export_model(s, loop.disk, [&loop](const std::string& folder) {
    return replace_file(loop.disk, folder, "config.json", loop.config_json());
  });
  finish_output(s, loop.disk, s.step);
  loop.board.set_phase("finished");
  loop.was_finished = true;
  if (s.is_rank0()) s.log.info("finished", {{"step", s.step}, {"output", s.env.output}});
}

}  // namespace lockstep::runtime

#include <stdexcept>
#include <utility>

#include "runtime/optim/adam_optimizer.h"
#include "runtime/optim/sgd_optimizer.h"

namespace lockstep::runtime {

std::unique_ptr<Optimizer> make_optimizer(const common::OptimizerConfig& config,
                                          DecayRanges ranges) {
  using Kind = common::OptimizerConfig::Kind;
  switch (config.kind) {
    case Kind::kAdamW:
    case Kind::kAdam:
      return make_adam_optimizer(config, std::move(ranges));
    case Kind::kSgd:
      return make_sgd_optimizer(config, std::move(ranges));
  }
  throw std::logic_error("unknown optimizer");
}

}  // namespace lockstep::runtime

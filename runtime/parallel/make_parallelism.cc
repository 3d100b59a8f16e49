#include "runtime/parallel/make_parallelism.h"

#include <stdexcept>

#include "runtime/parallel/data_parallel.h"

namespace lockstep::runtime {
namespace {

Sharding sharding_of(common::Strategy strategy) {
  switch (strategy) {
    case common::Strategy::kDdp:
      return {};
    case common::Strategy::kZero1:
      return {.moments = true};
    case common::Strategy::kZero2:
      return {.moments = true, .gradients = true};
    case common::Strategy::kZero3:
      return {.moments = true, .gradients = true, .weights = true};
    case common::Strategy::kAuto:
      break;
  }
  throw std::invalid_argument("the strategy must be chosen first: common::choose_strategy()");
}

}  // namespace

std::unique_ptr<Parallelism> make_parallelism(const ParallelismOptions& options,
                                              Collective& collective) {
  return make_data_parallel(sharding_of(options.strategy), options.unit_elems,
                            options.num_micro_batches, collective);
}

}  // namespace lockstep::runtime

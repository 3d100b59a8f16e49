#include "runtime/parallel/make_parallelism.h"

#include <stdexcept>

#include "runtime/parallel/ddp.h"
#include "runtime/parallel/zero3.h"

namespace lockstep::runtime {

std::unique_ptr<Parallelism> make_parallelism(const ParallelismOptions& options,
                                              Collective& collective) {
  switch (options.strategy) {
    case common::Strategy::kDdp:
      return make_ddp(options.unit_elems, options.num_micro_batches, collective);
    case common::Strategy::kZero3:
      return make_zero3(options.unit_elems, options.num_micro_batches, collective);
    case common::Strategy::kAuto:
      break;
  }
  throw std::invalid_argument("the strategy must be chosen first: common::choose_strategy()");
}

}  // namespace lockstep::runtime

#include "runtime/common/field_builders.h"
#include "runtime/common/train_sections.h"

namespace lockstep::common {

Field parallelism_section() {
  Field field =
      object("parallelism", "How the ranks share the work.",
             {choice("strategy", {"auto", "ddp", "zero1", "zero2", "zero3"}, {"fsdp"},
                     "What the ranks share. ddp: nothing; zero1: the optimizer's moments; "
                     "zero2: gradients too; zero3: weights too."),
              choice("reduction", {"reproducible"}, {"fast"},
                     "reproducible: the same bits on any number of ranks.")});
  field.planned = {"shardRanks", "reduceDtype", "bucketBytes", "prefetchUnits"};
  return field;
}

}  // namespace lockstep::common

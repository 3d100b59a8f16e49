#include "runtime/common/field_builders.h"
#include "runtime/common/train_sections.h"

namespace lockstep::common {

Field parallelism_section() {
  Field field =
      object("parallelism", "How the ranks share the work.",
             {choice("strategy", {"auto", "ddp", "zero3"}, {"zero1", "zero2", "fsdp"},
                     "ddp: every rank keeps the model. zero3: every rank keeps a slice of it."),
              choice("reduction", {"reproducible"}, {"fast"},
                     "reproducible: the same bits on any number of ranks.")});
  field.planned = {"shardRanks", "reduceDtype", "bucketBytes", "prefetchUnits"};
  return field;
}

}  // namespace lockstep::common

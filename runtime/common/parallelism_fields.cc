#include "runtime/common/field_builders.h"
#include "runtime/common/train_sections.h"

namespace lockstep::common {

Field parallelism_section() {
  Field bucket_bytes{.name = "bucketBytes",
                     .type = FieldType::kQuantity,
                     .doc =
                         "Gradients travel in exchanges of about this size, or a sixteenth of "
                         "them if that is less (at least 1Mi): larger units are split, smaller "
                         "ones joined."};
  bucket_bytes.default_value = "25Mi";
  return object(
      "parallelism", "How the ranks share the work.",
      {choice("strategy", {"auto", "ddp", "zero1", "zero2", "zero3"}, {"fsdp"},
              "What the ranks share. ddp: nothing; zero1: the optimizer's moments; "
              "zero2: gradients too; zero3: weights too."),
       defaulted(integer("shardRanks", 0, 4096,
                         "zero3 inside groups of this many consecutive ranks, each with a copy of "
                         "the model (HSDP, MiCS); 0: one group of all ranks."),
                 0),
       choice("reduction", {"reproducible", "fast"}, {},
              "reproducible: the same bits on any number of ranks. fast: less memory and traffic, "
              "the same bits for the same ranks and strategy only."),
       choice("reduceDtype", {"fp32", "bf16"}, {},
              "Type in which gradients travel; sums are taken in fp32. bf16 needs reduction: "
              "fast."),
       bucket_bytes,
       defaulted(integer("prefetchUnits", 0, 64, "Units whose weights zero3 gathers ahead."), 1)});
}

}  // namespace lockstep::common

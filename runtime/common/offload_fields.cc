#include "runtime/common/field_builders.h"
#include "runtime/common/train_sections.h"

namespace lockstep::common {

Field offload_section() {
  Field path{.name = "nvmePath",
             .doc =
                 "Folder on fast local storage, for nvme. It must exist on every rank; what a "
                 "rank puts there is gone when its process ends.",
             .min_length = 1,
             .max_length = 4096};
  return object(
      "offload",
      "Where state goes that a rank does not need at the moment. Same bits. cpu has no effect on "
      "ranks that compute on the CPU.",
      {choice("optimizer", {"none", "cpu", "nvme"}, {},
              "Moments; in bf16 and fp16 also the fp32 masters. nvme: they are read and written "
              "piece by piece around each update."),
       choice("parameters", {"none", "cpu"}, {"nvme"}, "Shards of the weights under zero3."),
       choice("activations", {"none", "cpu", "nvme"}, {},
              "What layers save for backward. nvme: it is written behind forward and read ahead of "
              "backward; three layers' stay."),
       path,
       boolean("pinMemory", true,
               "Page-locks the memory that a GPU copies from; of no effect on CPU ranks.")});
}

}  // namespace lockstep::common

#include "runtime/common/field_builders.h"
#include "runtime/common/train_sections.h"

namespace lockstep::common {

Field lora_section() {
  constexpr double kMostRank = 4096;
  Field dropout = number("dropout", 0, 1, 0.05,
                         "Share of the inputs of an adapter that are dropped in training.");
  dropout.exclusive_maximum = true;
  Field targets{.name = "targets",
                .type = FieldType::kList,
                .doc =
                    "Modules with an adapter, by PEFT's names (q_proj, mlp.down_proj); all-linear "
                    "stands for all of them but the head.",
                .default_value = {"all-linear"},
                .min_items = 1,
                .max_items = 32,
                .element = {{.pattern = "^(all-linear|[A-Za-z0-9_]+([.][A-Za-z0-9_]+)*)$",
                             .pattern_hint = "all-linear or the name of a module",
                             .min_length = 1,
                             .max_length = 128}}};
  Field field = object(
      "lora",
      "Trains low-rank adapters (LoRA) beside the weights of model.path, which are frozen. Absent: "
      "the weights are trained.",
      {defaulted(integer("rank", 1, kMostRank, "Rank of the adapters."), 16),
       positive(number("alpha", 0, 1e6, 32, "An adapter counts alpha / rank.")),
       dropout,
       boolean("useRslora", false, "Counts alpha / sqrt(rank) (rsLoRA)."),
       targets,
       boolean("merge", false,
               "Exports the model with the adapters added to its weights, in place of an adapter "
               "in PEFT's format."),
       {.name = "path",
        .doc = "A PEFT adapter to go on from: adapter_config.json, adapter_model.safetensors.",
        .min_length = 1,
        .max_length = 4096}});
  field.default_value = nullptr;
  field.rules = {
      {"!('all-linear' in self.targets) || size(self.targets) == 1",
       "all-linear already names every module", ".targets"},
      {"!has(self.path) || !self.path.startsWith('hf://')",
       "hf:// is not supported yet: download the adapter, and name its folder", ".path"},
  };
  return field;
}

}  // namespace lockstep::common

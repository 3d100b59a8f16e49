#include "runtime/common/field_builders.h"
#include "runtime/common/train_sections.h"

namespace lockstep::common {
namespace {

constexpr double kMaxBatch = 1 << 20;

}  // namespace

Field data_section() {
  Field field = required_object(
      "data", "What to train on.",
      {
          {.name = "train",
           .doc = "Text files: a path, a folder or a glob with braces, e.g. /data/{a,b}/*.txt.",
           .required = true,
           .min_length = 1,
           .max_length = 4096},
          choice("format", {"auto", "text"}, {"jsonl", "messages", "tokens"},
                 "Format of the files."),
          required(integer("sequenceLength", 1, 1 << 20, "Tokens per sample.")),
          boolean("shuffle", true, "Whether samples come in a random order, given by seed."),
      });
  field.planned = {"validation", "columns", "packing", "loaderThreads", "prefetchBatches"};
  return field;
}

Field batch_section() {
  Field field = required_object(
      "batch", "Sequences per step. Any two of the three fields decide the third.",
      {
          integer("globalBatchSize", 1, kMaxBatch, "Sequences per optimizer step, over all ranks."),
          integer("microBatchSize", 1, kMaxBatch,
                  "Sequences per forward and backward; 1 if only globalBatchSize is given."),
          integer("accumulationSteps", 1, kMaxBatch,
                  "Micro-batches per rank and step. While it is given, ranks cannot change."),
      });
  field.rules = {
      {"has(self.globalBatchSize) || (has(self.microBatchSize) && "
       "has(self.accumulationSteps))",
       "give globalBatchSize, or microBatchSize and accumulationSteps", ""}};
  return field;
}

}  // namespace lockstep::common

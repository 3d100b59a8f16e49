#include "runtime/common/field_builders.h"
#include "runtime/common/train_sections.h"

namespace lockstep::common {
namespace {

constexpr double kMaxBatch = 1 << 20;

}  // namespace

Field data_section() {
  Field validation{
      .name = "validation",
      .doc = "Data to measure the loss on, in the words of `train`; none unless given.",
      .min_length = 1,
      .max_length = 4096};
  Field text_column{.name = "text",
                    .doc = "The field of a line of jsonl that holds its text.",
                    .default_value = "text",
                    .min_length = 1};
  Field field = required_object(
      "data", "What to train on.",
      {
          {.name = "train",
           .doc = "Files: a path, a folder or a glob with braces, e.g. /data/{a,b}/*.jsonl.",
           .required = true,
           .min_length = 1,
           .max_length = 4096},
          validation,
          choice(
              "format", {"auto", "text", "jsonl", "tokens"}, {"messages"},
              "Format of the files. auto goes by their names: *.jsonl, *.tokens, all else text."),
          object("columns", "Which fields of a line hold what.", {text_column}),
          required(integer("sequenceLength", 1, 1 << 20, "Tokens per sample.")),
          boolean("packing", true,
                  "true: samples are cut out of one stream, and attention stops at the borders of "
                  "documents. false: a sample is a document, cut or filled up."),
          boolean("shuffle", true, "Whether samples come in a random order, given by seed."),
          defaulted(integer("loaderThreads", 0, 64,
                            "Threads per rank that read ahead; 0 = read when needed."),
                    2),
          defaulted(integer("prefetchBatches", 1, 1024,
                            "Micro-batches per rank that are kept ready ahead."),
                    2),
      });
  return field;
}

Field evaluation_section() {
  return object(
      "evaluation", "Measuring the loss on data.validation, and stopping by it.",
      {defaulted(integer("everySteps", 0, kMaxCount,
                         "Steps between evaluations; 0 = only after the last step."),
                 0),
       defaulted(integer("earlyStoppingPatience", 0, 1000000,
                         "Stop after so many evaluations in a row without a better loss; 0 = off."),
                 0)});
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

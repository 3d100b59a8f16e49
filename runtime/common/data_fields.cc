#include <utility>

#include "runtime/common/field_builders.h"
#include "runtime/common/hub_reference.h"
#include "runtime/common/train_sections.h"

namespace lockstep::common {
namespace {

constexpr double kMaxBatch = 1 << 20;

Field column(std::string name, std::string doc) {
  return {.name = std::move(name), .doc = std::move(doc), .min_length = 1};
}

Field columns_section() {
  Field text = column("text", "The field of a row that holds its text.");
  text.default_value = "text";
  Field field =
      object("columns",
             "Which fields of a row hold what. Those of conversations are found by the first row "
             "unless some are named.",
             {text, column("messages", "A list of {role, content} or {from, value}."),
              column("prompt", "What the completion goes on from: a text, or a list of messages."),
              column("completion", "What is learned behind the prompt: as the prompt is."),
              column("instruction", "What a user asks; the chat template makes the text."),
              column("input", "What the instruction is about; may be empty."),
              column("response", "What the assistant answers to the instruction."),
              column("chosen",
                     "Of a pair, the answer that is preferred: a text, or a list of "
                     "messages."),
              column("rejected", "The other answer of a pair: as the chosen is.")});
  field.rules = {
      {"(has(self.messages) ? 1 : 0) + (has(self.prompt) || has(self.completion) ? 1 : 0) + "
       "(has(self.instruction) || has(self.input) || has(self.response) ? 1 : 0) <= 1",
       "name messages, or prompt and completion, or instruction, input and response", ""}};
  return field;
}

Field held_out_fraction() {
  Field fraction = positive(number("validationFraction", 0, 1, 0,
                                   "In place of `validation`: this share of the documents (rows, "
                                   "files, pairs) of `train`, or of each source, is held out, "
                                   "chosen by seed, to measure the loss on; e.g. 0.05."));
  fraction.exclusive_maximum = true;
  fraction.default_value = nullptr;
  return fraction;
}

// Shorter paths than those of `train`: an API server reckons its rules for as many sources as there
// may be.
Field sources_list() {
  Field path{.name = "path",
             .doc = "Files, in the words of `train`.",
             .required = true,
             .min_length = 1,
             .max_length = 1024};
  Field source = object("", "Data, and how much of it.",
                        {path, positive(number("weight", 0, 1e6, 1,
                                               "Its share of the samples is this part of the sum "
                                               "of all weights."))});
  source.default_value = nullptr;  // there is none without a path
  source.rules = {hub_rule("path", HubKind::kDataset)};
  Field field{.name = "sources",
              .type = FieldType::kList,
              .doc =
                  "In place of `train`: several sources that are mixed by weight, e.g. [{path: "
                  "/data/web, weight: 3}, {path: /data/books}].",
              .min_items = 1,
              .max_items = 16,
              .element = {std::move(source)},
              .list_key = "path"};
  field.rules = {{"self.all(s, s.weight * 10000.0 >= self.map(t, t.weight).sum())",
                  "a weight must be at least a ten-thousandth of their sum", ""}};
  return field;
}

}  // namespace

Field data_section() {
  Field loss =
      choice("loss", {"response", "all"}, {},
             "Of tasks sft and distill: which tokens of a conversation are learned. Default: "
             "response, those of the assistant.");
  loss.default_value = nullptr;
  Field validation{
      .name = "validation",
      .doc = "Data to measure the loss on, in the words of `train`; none unless given.",
      .min_length = 1,
      .max_length = 4096};
  Field field = required_object(
      "data", "What to train on.",
      {
          {.name = "train",
           .doc =
               "Files: a path, a folder or a glob with braces, e.g. /data/{a,b}/*.jsonl; or of a "
               "data set on the hub: hf://ORG/NAME[@REVISION][/PATH]. Or give `sources`.",
           .min_length = 1,
           .max_length = 4096},
          sources_list(),
          validation,
          held_out_fraction(),
          choice("format", {"auto", "text", "jsonl", "messages", "tokens"}, {},
                 "Format of the files. auto goes by their names: rows in *.jsonl, *.json, *.csv, "
                 "*.tsv and *.parquet, *.tokens, all else text. jsonl: rows with a text. messages: "
                 "rows with conversations, which auto finds under tasks sft and distill."),
          columns_section(),
          loss,
          required(integer("sequenceLength", 1, 1 << 20, "Tokens per sample.")),
          {.name = "packing",
           .type = FieldType::kBoolean,
           .doc = "true: samples are cut out of one stream, and attention stops at the borders of "
                  "documents. false: a sample is a document, cut or filled up. Default: true of "
                  "task pretrain, else false; pairs are never packed."},
          boolean("shuffle", true, "Whether samples come in a random order, given by seed."),
          defaulted(integer("loaderThreads", 0, 64,
                            "Threads per rank that read ahead; 0 = read when needed."),
                    2),
          defaulted(integer("prefetchBatches", 1, 1024,
                            "Micro-batches per rank that are kept ready ahead."),
                    2),
      });
  field.rules = {hub_rule("train", HubKind::kDataset),
                 hub_rule("validation", HubKind::kDataset),
                 {"has(self.train) != has(self.sources)", "give either train or sources", ""},
                 {"!has(self.validation) || !has(self.validationFraction)",
                  "validation and validationFraction exclude each other", ".validationFraction"}};
  return field;
}

Field evaluation_section() {
  return object(
      "evaluation", "Measuring the loss on validation data, and stopping by it.",
      {defaulted(integer("everySteps", 0, kMaxCount,
                         "Steps between evaluations; 0 = only after the last step."),
                 0),
       defaulted(integer("earlyStoppingPatience", 0, 1000000,
                         "Stop after so many evaluations in a row without a better loss; 0 = off."),
                 0)});
}

Field batch_section() {
  Field field = required_object(
      "batch",
      "Sequences per step, or pairs of them under dpo, orpo and reward. Any two of the three "
      "fields "
      "decide the third.",
      {
          integer("globalBatchSize", 1, kMaxBatch,
                  "Sequences (of dpo, orpo and reward pairs) per optimizer step, over all ranks."),
          integer("microBatchSize", 1, kMaxBatch,
                  "Sequences (of dpo, orpo and reward pairs) per forward and backward; 1 if only "
                  "globalBatchSize is given."),
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

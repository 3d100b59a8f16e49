#include "operator/convert/import_source.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "operator/convert/report.h"
#include "tests/operator/convert/import_checks.h"

namespace lockstep::convert {
namespace {

using nlohmann::json;
using testing::HasSubstr;
using testing::Not;

constexpr const char* kSource = R"({
  "train_batch_size": 16,
  "train_micro_batch_size_per_gpu": 2,
  "bf16": {"enabled": true},
  "wandb": {"enabled": true},
  "moe": {"experts": 8}
})";

TEST(ImportTest, WhatIsSetIsNoLongerMarked) {
  const Imported imported = import_valid(
      kSource, "auto",
      {"ranks=4", "train.epochs=2", "train.data={train: /data/a.txt, sequenceLength: 64}",
       "train.model.config={vocab_size: 256, hidden_size: 64, intermediate_size: 128, "
       "num_hidden_layers: 2, num_attention_heads: 4}",
       "train.optimizer.lr=1e-3", "train.schedule.name=cosine"});
  EXPECT_EQ(to_change(imported), "");
  EXPECT_EQ(field(imported, "ranks"), 4);
  EXPECT_EQ(field(imported, "train.steps"), json());
  EXPECT_THAT(imported.manifest, Not(HasSubstr("CHANGE")));
}

TEST(ImportTest, AWrongSetIsAProblemThatNamesIt) {
  const Imported imported =
      import_text(kSource, {.file_name = "a.json", .from = "auto", .sets = {"train.stepz=3"}});
  EXPECT_EQ(imported.manifest, "");
  EXPECT_THAT(imported.conversion.problems.front().message, HasSubstr("--set train.stepz=3"));
}

TEST(ImportTest, ManifestSaysWhatToChangeAndWhatWasRefused) {
  const Imported imported = import_valid(kSource);
  EXPECT_THAT(imported.manifest, HasSubstr("# From source.yaml, DeepSpeed"));
  EXPECT_THAT(imported.manifest,
              HasSubstr("#   moe (line 6): expert parallelism is not supported"));
  EXPECT_THAT(imported.manifest, HasSubstr("train: \"/data/*.txt\"  # CHANGE: your files"));
  EXPECT_THAT(imported.manifest, HasSubstr("metadata:\n  name: source\n"));
}

TEST(ImportTest, ReportListsEveryKeyOnce) {
  const Imported imported = import_valid(kSource);
  const std::string report = render_report(imported.conversion, "ds.json");
  EXPECT_THAT(report, HasSubstr("ds.json: DeepSpeed\nmapped (3)\n"));
  EXPECT_THAT(report,
              HasSubstr("  train_batch_size (line 2) -> spec.train.batch.globalBatchSize\n"));
  EXPECT_THAT(report, HasSubstr("changed (1)\n  wandb (line 5) -> spec.train.logging.tensorboard"));
  EXPECT_THAT(report, HasSubstr("refused (1)\n  moe (line 6)"));
  EXPECT_THAT(report, HasSubstr("CHANGE, for only you know"));
}

TEST(ImportTest, JsonHoldsTheListsAndTheManifest) {
  const Imported imported = import_valid(kSource);
  const json out = to_json(imported.conversion, "ds.json");
  EXPECT_EQ(out.at("tool"), "DeepSpeed");
  EXPECT_EQ(out.at("mapped").size(), 3);
  EXPECT_EQ(out.at("changed")[0].at("field"), "spec.train.logging.tensorboard");
  EXPECT_EQ(out.at("refused")[0].at("key"), "moe");
  EXPECT_EQ(out.at("refused")[0].at("line"), 6);
  EXPECT_EQ(out.at("manifest").at("spec"), imported.conversion.spec);
  EXPECT_EQ(out.at("manifest").at("metadata").at("name"), "source");
}

TEST(ImportTest, CommentsHoldNothingThatEndsThem) {
  const Imported imported =
      import_valid("{\"train_batch_size\": 8, \"odd\\nkey: {\\u0007\": {\"x\": 1}}");
  EXPECT_THAT(imported.manifest, HasSubstr("odd key: {?"));
}

TEST(ImportTest, FilesThatAreNoConfigurationAreRefusedWithWhatToDo) {
  EXPECT_THAT(import_broken(""), HasSubstr("the file is empty"));
  EXPECT_THAT(import_broken("[1, 2]"), HasSubstr("must be a map of keys"));
  EXPECT_THAT(import_broken("name: x\n"), HasSubstr("no configuration that import knows"));
  EXPECT_THAT(import_broken("a: 1\n---\nb: 2\n"), HasSubstr("several documents"));
  EXPECT_THAT(import_broken("a: [1\n"), HasSubstr("line"));
}

}  // namespace
}  // namespace lockstep::convert

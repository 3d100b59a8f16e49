#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runtime/common/train_config.h"

namespace lockstep::common {
namespace {

using nlohmann::json;
using testing::HasSubstr;

json with_offload(const json& offload) {
  json train = json::parse(R"({
    "task": "pretrain",
    "model": {"init": "random",
              "config": {"model_type": "llama", "vocab_size": 256, "hidden_size": 64,
                         "intermediate_size": 128, "num_hidden_layers": 2,
                         "num_attention_heads": 4, "max_position_embeddings": 64}},
    "tokenizer": {"type": "bytes"},
    "data": {"train": "corpus.txt", "sequenceLength": 64},
    "batch": {"globalBatchSize": 8},
    "steps": 10})");
  if (!offload.is_null()) train["offload"] = offload;
  return train;
}

TEST(OffloadFieldsTest, NothingMovesUnlessAskedFor) {
  const OffloadConfig offload = decode_train(with_offload(nullptr)).offload;
  EXPECT_EQ(offload.optimizer, OffloadTarget::kNone);
  EXPECT_EQ(offload.parameters, OffloadTarget::kNone);
  EXPECT_EQ(offload.activations, OffloadTarget::kNone);
  EXPECT_EQ(offload.nvme_path, "");
}

TEST(OffloadFieldsTest, EveryFieldThatIsGivenArrives) {
  const json train = with_offload({{"optimizer", "nvme"},
                                   {"parameters", "cpu"},
                                   {"activations", "nvme"},
                                   {"nvmePath", "/nvme"},
                                   {"pinMemory", false}});
  ASSERT_TRUE(check_train(train, 1, "t").empty());
  const OffloadConfig offload = decode_train(train).offload;
  EXPECT_EQ(offload.optimizer, OffloadTarget::kNvme);
  EXPECT_EQ(offload.parameters, OffloadTarget::kCpu);
  EXPECT_EQ(offload.activations, OffloadTarget::kNvme);
  EXPECT_EQ(offload.nvme_path, "/nvme");
}

TEST(OffloadFieldsTest, NvmeNeedsAPath) {
  for (const std::string part : {"optimizer", "activations"}) {
    const Problems problems = check_train(with_offload({{part, "nvme"}}), 1, "t");
    ASSERT_EQ(problems.size(), 1U) << part;
    EXPECT_EQ(problems[0].path, "t.offload.nvmePath");
    EXPECT_EQ(problems[0].message, "is required: offload." + part + " is nvme");
    EXPECT_TRUE(check_train(with_offload({{part, "cpu"}}), 1, "t").empty());
  }
}

TEST(OffloadFieldsTest, ParametersOnNvmeAreRefusedByName) {
  const Problems problems =
      check_train(with_offload({{"parameters", "nvme"}, {"nvmePath", "/nvme"}}), 1, "t");
  ASSERT_EQ(problems.size(), 1U);
  EXPECT_EQ(problems[0].path, "t.offload.parameters");
  EXPECT_THAT(problems[0].message, HasSubstr("is not supported by this version"));
}

}  // namespace
}  // namespace lockstep::common

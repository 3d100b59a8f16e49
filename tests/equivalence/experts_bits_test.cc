// Mixture of experts: which expert a token takes depends on its micro-batch alone, so the bits are
// the same however ranks share the work. Here too ranks own slices that begin inside an expert.
#include <span>

#include "tests/equivalence/same_bits.h"

namespace lockstep::equivalence {
namespace {

using nlohmann::json;

json experts_of(const std::string& model_type) {
  json config = {{"model_type", model_type}, {"num_local_experts", 5}, {"num_experts_per_tok", 2}};
  if (model_type == "qwen3_moe") config["moe_intermediate_size"] = 36;
  return {{"model", {{"config", config}}}};
}

class ExpertsBitsTest : public SameBitsTest {
 protected:
  TinyJob job(const std::string& model_type, const std::string& precision,
              int64_t steps = 4) const {
    return {.ranks = 1,
            .micro_batches = 24,
            .steps = steps,
            .layers = kLayers,
            .precision = precision,
            .more = experts_of(model_type)};
  }
};

TEST_F(ExpertsBitsTest, AreTheSameOnAnyRankCountAndStrategy) {
  struct Way {
    Sharing sharing;
    std::string checkpointing = "none";
    std::string offloaded = "none";
  };
  const std::vector<Way> ways = {{{"zero3", 0, 3}, "none", "nvme"},
                                 {{"zero2", 0, 4}, "selective"},
                                 {{"ddp", 0, 3}, "block"},
                                 {{"zero1", 0, 2}, "none", "nvme"},
                                 {{"zero3", 2, 4}, "block"}};
  for (const std::string model_type : {"mixtral", "qwen3_moe"}) {
    for (const std::string precision : {"fp32", "bf16"}) {
      const std::string reference = model_type + precision;
      train(job(model_type, precision), reference);
      ASSERT_EQ(read_curve(folder_.path(reference)).size(), 4U);
      const size_t num_ways = model_type == "mixtral" ? ways.size() : 2;
      for (const Way& way : std::span(ways).first(num_ways)) {
        TinyJob shared = job(model_type, precision);
        shared.ranks = way.sharing.ranks;
        shared.strategy = way.sharing.strategy;
        shared.shard_ranks = way.sharing.shard_ranks;
        shared.activation_checkpointing = way.checkpointing;
        shared.offload_optimizer = way.offloaded;
        shared.offload_activations = way.offloaded;
        const std::string name =
            reference + name_of(way.sharing) + std::to_string(way.sharing.ranks);
        train(shared, name);
        expect_same(name, reference);
        forget(name);
      }
    }
  }
}

TEST_F(ExpertsBitsTest, AreTheSameAfterGoingOnWithOtherRanks) {
  TinyJob one = job("mixtral", "bf16", 8);
  train(one, "reference");
  one.ranks = 4;
  one.strategy = "zero3";
  train(one, "moved");
  forget_after_step("moved", 4);
  one.ranks = 3;
  one.strategy = "zero1";
  train(one, "moved", 1);
  expect_same("moved", "reference");
}

// The model that was exported is read again, expert by expert, into other slices.
TEST_F(ExpertsBitsTest, SurviveTheExportAndItsReading) {
  train(job("qwen3_moe", "fp32"), "base");
  TinyJob still{.ranks = 3, .strategy = "zero3", .steps = 1, .lr = 0};
  still.more = {
      {"model",
       {{"path", folder_.path("base") + "/model"}, {"config", nullptr}, {"init", nullptr}}}};
  train(still, "again");
  EXPECT_TRUE(read_text(weights_path("again")) == read_text(weights_path("base")));
}

}  // namespace
}  // namespace lockstep::equivalence

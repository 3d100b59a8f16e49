// What preference_bits_test shows of a few ways to share pairs, of many, and with adapters. Run by
// `make test-full`.
#include "tests/equivalence/preference_bits.h"

namespace lockstep::equivalence {
namespace {

using nlohmann::json;
using testing::HasSubstr;
using PreferenceBitsFullTest = PairsTest;

TEST_F(PreferenceBitsFullTest, PairsOnAnyRankCountAndStrategy) {
  for (const std::string name : {"dpo", "orpo", "reward"}) {
    train(job({"ddp", 0, 1}, task(name)), name);
    const std::string last = read_curve(folder_.path(name)).back();
    EXPECT_THAT(last, HasSubstr("\"validation_reward_accuracy\": "));
    for (const Sharing& sharing :
         {Sharing{"ddp", 0, 3}, Sharing{"zero1", 0, 2}, Sharing{"zero2", 0, 4},
          Sharing{"zero3", 0, 2}, Sharing{"zero3", 2, 4}}) {
      const std::string other = name + name_of(sharing) + std::to_string(sharing.ranks);
      train(job(sharing, task(name)), other);
      expect_same(other, name);
    }
    const std::string rounded = name + "-bf16";
    train(job({"ddp", 0, 1}, task(name), "bf16"), rounded);
    TinyJob busy = job({"zero3", 0, 2}, task(name), "bf16");
    busy.activation_checkpointing = "block";
    busy.offload_optimizer = "nvme";
    train(busy, rounded + "-two");
    expect_same(rounded + "-two", rounded);
  }
}

TEST_F(PreferenceBitsFullTest, AdaptersHaveTheModelBelowThemAsReference) {
  train(job({"ddp", 0, 1}, {}), "base");
  const json lora = task(
      "dpo",
      {{"model", {{"path", folder_.path("base/model")}, {"config", nullptr}, {"init", nullptr}}},
       {"lora", {{"rank", 4}, {"dropout", 0.1}}}});
  train(job({"ddp", 0, 1}, lora), "one");
  train(job({"zero3", 0, 4}, lora), "four");
  const std::string file = "/model/adapter_model.safetensors";
  const std::string adapter = read_text(folder_.path("one") + file);
  ASSERT_FALSE(adapter.empty());
  EXPECT_TRUE(read_text(folder_.path("four") + file) == adapter);
  EXPECT_EQ(read_curve(folder_.path("four")), read_curve(folder_.path("one")));
  // Whole weights begin as the same reference.
  json whole = lora;
  whole.erase("lora");
  train(job({"ddp", 0, 1}, whole), "whole");
  const auto log_probs = [&](const std::string& name) {
    const std::string text = read_text(reference_path(name));
    return text.substr(text.find('\n'));
  };
  EXPECT_TRUE(log_probs("whole") == log_probs("one"));
}

TEST_F(PreferenceBitsFullTest, RowsThatAreNoPairsAreRefusedByFileLineAndField) {
  expect_refusal(R"({"prompt": "a", "chosen": "b", "rejected": [1]})",
                 "bad.jsonl:41: \"rejected\"[0] is a");
  expect_refusal(R"({"prompt": "a", "chosen": )", "bad.jsonl:41: is not JSON");
}

}  // namespace
}  // namespace lockstep::equivalence

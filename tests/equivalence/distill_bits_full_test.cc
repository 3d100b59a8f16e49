// What distill_bits_test shows of a few ways to share a student and its teacher, of many, and with
// adapters. Run by `make test-full`.
#include "tests/equivalence/distill_bits.h"

namespace lockstep::equivalence {
namespace {

using nlohmann::json;
using DistillBitsFullTest = TaughtTest;

TEST_F(DistillBitsFullTest, TaughtOnAnyRankCountAndStrategy) {
  for (const std::string precision : {"fp32", "bf16"}) {
    train(job({"ddp", 0, 1}, taught(), precision), precision);
    for (const Sharing& sharing :
         {Sharing{"ddp", 0, 3}, Sharing{"zero1", 0, 2}, Sharing{"zero2", 0, 4},
          Sharing{"zero3", 0, 2}, Sharing{"zero3", 2, 4}}) {
      const std::string other = precision + name_of(sharing) + std::to_string(sharing.ranks);
      train(job(sharing, taught(), precision), other);
      expect_same(other, precision);
    }
  }
}

TEST_F(DistillBitsFullTest, AdaptersLearnFromATeacher) {
  train(job({"ddp", 0, 1}, {}), "base");
  const json lora = taught(
      {{"model", {{"path", folder_.path("base/model")}, {"config", nullptr}, {"init", nullptr}}},
       {"lora", {{"rank", 4}, {"dropout", 0.1}}}});
  train(job({"ddp", 0, 1}, lora), "one");
  train(job({"zero3", 0, 4}, lora), "four");
  const std::string file = "/model/adapter_model.safetensors";
  const std::string adapter = read_text(folder_.path("one") + file);
  ASSERT_FALSE(adapter.empty());
  EXPECT_TRUE(read_text(folder_.path("four") + file) == adapter);
  EXPECT_EQ(read_curve(folder_.path("four")), read_curve(folder_.path("one")));
}

}  // namespace
}  // namespace lockstep::equivalence

// Learning from a teacher: the same bits however ranks share the student and the teacher, and
// teachers that do not fit. All sharings, and adapters, are in distill_bits_full_test.
#include "tests/equivalence/distill_bits.h"

namespace lockstep::equivalence {
namespace {

using nlohmann::json;
using support::write_text;
using testing::HasSubstr;
using DistillBitsTest = TaughtTest;

TEST_F(DistillBitsTest, TaughtOnOneRankAndShared) {
  train(job({"ddp", 0, 1}, taught()), "one");
  const std::string last = read_curve(folder_.path("one")).back();
  train(job({"ddp", 0, 2}, taught()), "two");
  expect_same("two", "one");
  train(job({"zero3", 0, 4}, taught()), "four");
  expect_same("four", "one");

  // What the teacher says counts, as much as it was asked to.
  train(job({"ddp", 0, 1}, taught({{"distill", {{"alpha", 0.9}}}})), "more");
  EXPECT_NE(read_curve(folder_.path("more")).back(), last);
  json fine_tuned = taught({{"task", "sft"}});
  fine_tuned.erase("distill");
  train(job({"ddp", 0, 1}, fine_tuned), "alone");
  train(job({"ddp", 0, 1}, taught({{"distill", {{"alpha", 0}}}})), "unheard");
  expect_same("unheard", "alone");
}

TEST_F(DistillBitsTest, ARunGoesOnWithTheTeacherThatItHad) {
  train(job({"ddp", 0, 1}, taught()), "whole");
  train(job({"zero3", 0, 2}, taught()), "run");
  forget_after_step("run", 2);
  train(job({"zero1", 0, 4}, taught()), "run", 1);
  expect_same("run", "whole");

  forget_after_step("run", 2);
  TinyJob other = PairsTest::job({"ddp", 0, 1}, {{"seed", 7}});
  other.more["model"] = {
      {"config", {{"model_type", "qwen3"}, {"hidden_size", 40}, {"num_hidden_layers", 3}}}};
  train(other, "other");
  Gang gang(
      options(job({"ddp", 0, 2}, taught({{"distill", {{"teacher", folder_.path("other/model")}}}})),
              "run", 2));
  EXPECT_EQ(gang.wait().front(), static_cast<int>(common::ExitCode::kInvalidConfig));
  EXPECT_THAT(gang.last_words(0)->message,
              HasSubstr("train.model.path or train.distill.teacher holds other weights than then"));
}

TEST_F(DistillBitsTest, ATeacherThatDoesNotFitIsRefused) {
  const auto refusal_of = [&](const std::string& teacher, common::ExitCode code) {
    std::filesystem::remove_all(folder_.path("refused"));
    const json train = taught({{"distill", {{"teacher", folder_.path(teacher)}}}});
    Gang gang(options(job({"ddp", 0, 2}, train), "refused"));
    EXPECT_EQ(gang.wait().front(), static_cast<int>(code)) << gang.log(0);
    return gang.last_words(0) ? gang.last_words(0)->message : gang.log(0);
  };
  make_teacher("wide", 300);
  EXPECT_THAT(refusal_of("wide/model", common::ExitCode::kInvalidConfig),
              HasSubstr("has vocab_size 300, the model that learns has 256"));
  EXPECT_THAT(refusal_of("nobody", common::ExitCode::kInputNotFound),
              HasSubstr("train.distill.teacher: "));
  // Its tokens have other ids.
  std::string tokens = read_text(tokenizer_ + "/tokenizer.json");
  const std::size_t at = tokens.find("\"a\":97");
  ASSERT_NE(at, std::string::npos);
  tokens.replace(at, 6, "\"a\":98");
  write_text(folder_.path("teacher/model/tokenizer.json"), tokens);
  EXPECT_THAT(refusal_of("teacher/model", common::ExitCode::kInvalidConfig),
              HasSubstr("has other tokens than that in"));
}

}  // namespace
}  // namespace lockstep::equivalence

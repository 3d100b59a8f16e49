// Runs of real ranks that learn from a teacher.
#pragma once

#include <string>

#include "tests/equivalence/preference_bits.h"

namespace lockstep::equivalence {

// With a teacher that was trained for a few steps, of another shape and family than the student.
class TaughtTest : public PairsTest {
 protected:
  void SetUp() override {
    PairsTest::SetUp();
    std::string lines;
    for (int i = 0; i < kPairs; ++i) {
      const std::string answer(static_cast<std::size_t>(1 + i * 3 % 17),
                               static_cast<char>('a' + i * 3 % 26));
      lines += nlohmann::json{
          {"prompt", "what is " + std::to_string(i * 7919) + "? "},
          {"completion",
           answer}}.dump();
      lines += '\n';
    }
    support::write_text(folder_.path("rows.jsonl"), lines);
    make_teacher("teacher", 256);
  }

  void make_teacher(const std::string& name, int vocab_size) const {
    TinyJob job = PairsTest::job({"ddp", 0, 1}, {});
    job.more = {{"model",
                 {{"config",
                   {{"model_type", "qwen3"},
                    {"vocab_size", vocab_size},
                    {"hidden_size", 40},
                    {"num_hidden_layers", 3}}}}}};
    train(job, name);
  }

  nlohmann::json taught(const nlohmann::json& more = nlohmann::json::object()) const {
    nlohmann::json train = {
        {"task", "distill"},
        {"tokenizer", {{"type", "hf"}, {"path", tokenizer_}}},
        {"data",
         {{"train", folder_.path("rows.jsonl")}, {"validation", folder_.path("rows.jsonl")}}},
        {"distill", {{"teacher", folder_.path("teacher/model")}}}};
    train.update(more, /*merge_objects=*/true);
    return train;
  }
};

}  // namespace lockstep::equivalence

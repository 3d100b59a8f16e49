#include "runtime/train/model_card.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace lockstep::runtime {
namespace {

using testing::HasSubstr;
using testing::Not;

CardFacts facts(const std::string& model, const std::string& data) {
  CardFacts facts;
  facts.manifest.step = 40;
  facts.manifest.samples_consumed = 640;
  facts.manifest.global_batch_size = 16;
  facts.manifest.ranks = 2;
  facts.manifest.strategy = "zero3";
  facts.manifest.corpus_fingerprint = "v1:9";
  facts.manifest.pretrained_fingerprint = "v1:2";
  facts.manifest.train_json = nlohmann::json{
      {"task", "pretrain"},
      {"model", {{"path", model}}},
      {"data", {{"train", data}, {"validation", data}}},
      {"precision", "bf16"},
      {"optimizer", {{"name", "adamw"}, {"lr", 0.0003}}},
      {"schedule",
       {{"name", "cosine"}}}}.dump();
  facts.train.model.model_type = "llama";
  facts.train.model_source.is_pretrained = true;
  facts.train.data.sequence_length = 64;
  facts.train.data.sources = {{.path = data, .field = "data.train"}};
  facts.dtype = common::DType::kBf16;
  facts.num_parameters = 1234;
  return facts;
}

TEST(ModelCardTest, TellsWhatTheWeightsAreOf) {
  CardFacts told = facts("/models/base", "/data/*.txt");
  told.loss = 2.5;
  told.manifest.evaluations = {.last_step = 40, .best_loss = 2.75, .best_step = 20};
  const std::string card = model_card(told);
  EXPECT_TRUE(card.starts_with("---\nlibrary_name: transformers\n")) << card;
  for (const char* const row :
       {"| model | llama, 1234 parameters |", "| weights | bf16, of fp32 masters |",
        "| first weights | a directory with fingerprint v1:2 |",
        "| training data | files with fingerprint v1:9 |", "| step | 40 |",
        "| samples seen | 640, of 64 tokens at most |", "| training loss of that step | 2.5 |",
        "| best validation loss | 2.75, at step 20 |",
        "| optimizer | adamw, learning rate 0.0003, cosine |", "| ranks | 2, zero3 |"}) {
    EXPECT_THAT(card, HasSubstr(row));
  }
}

TEST(ModelCardTest, TellsWhatWasHeldOut) {
  CardFacts told = facts("/models/base", "/data/*.txt");
  EXPECT_THAT(model_card(told), Not(HasSubstr("held out")));
  told.train.data.validation_fraction = 0.05;
  EXPECT_THAT(model_card(told),
              HasSubstr("| held out of it | 0.05 of its documents, to measure the loss on |"));
}

TEST(ModelCardTest, CountsWhatAStepTakes) {
  CardFacts told = facts("/models/base", "/data/*.txt");
  for (const auto& [task, row] : std::vector<std::pair<common::Task, const char*>>{
           {common::Task::kSft, "| sequences per step | 16 |"},
           {common::Task::kDpo, "| pairs per step | 16 |"},
           {common::Task::kOrpo, "| pairs per step | 16 |"}}) {
    told.train.task = task;
    EXPECT_THAT(model_card(told), HasSubstr(row));
  }
}

TEST(ModelCardTest, NamesNoPathOfTheMachine) {
  const std::string card = model_card(facts("/models/base", "/data/*.txt"));
  EXPECT_THAT(card, Not(HasSubstr("/models")));
  EXPECT_THAT(card, Not(HasSubstr("/data")));
  EXPECT_THAT(card, Not(HasSubstr("base_model")));
  EXPECT_THAT(card, Not(HasSubstr("validation loss")));
}

TEST(ModelCardTest, NamesWhatCameFromTheHubWithItsCommit) {
  CardFacts told = facts("hf://org/base@v1", "hf://org/talks");
  told.manifest.hub_commits = {{"hf://org/base@v1", "0a1b"},
                               {"hf://datasets/org/talks@main", "2c"}};
  const std::string card = model_card(told);
  EXPECT_THAT(card, HasSubstr("base_model: org/base\ndatasets:\n- org/talks\ntags:\n"));
  EXPECT_THAT(card, HasSubstr("| first weights | `hf://org/base@v1`, commit 0a1b |"));
  EXPECT_THAT(card, HasSubstr("| training data | `hf://org/talks`, commit 2c |"));
}

TEST(ModelCardTest, NamesTheSourcesOfAMixture) {
  CardFacts told = facts("/models/base", "/data/*.txt");
  nlohmann::json train = nlohmann::json::parse(told.manifest.train_json);
  train["data"] = {
      {"sources",
       {{{"path", "hf://org/talks"}, {"weight", 3}}, {{"path", "/data/*.txt"}, {"weight", 0.5}}}}};
  told.manifest.train_json = train.dump();
  told.manifest.hub_commits = {{"hf://datasets/org/talks@main", "2c"}};
  told.train.data.sources = {
      {.path = "/cache/talks", .weight = 3, .field = "data.sources[0].path"},
      {.path = "/data/*.txt", .weight = 0.5, .field = "data.sources[1].path"}};
  const std::string card = model_card(told);
  EXPECT_THAT(card, HasSubstr("| training data | 2 sources, mixed by weight; files with "
                              "fingerprint v1:9 |"));
  EXPECT_THAT(card, HasSubstr("| source of weight 3.0 | `hf://org/talks`, commit 2c |"));
  EXPECT_THAT(card, HasSubstr("| source of weight 0.5 | files |"));
  EXPECT_THAT(card, HasSubstr("datasets:\n- org/talks\n"));
}

}  // namespace
}  // namespace lockstep::runtime

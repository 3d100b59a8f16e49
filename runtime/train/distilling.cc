#include "runtime/train/distilling.h"

#include <optional>
#include <utility>

#include <nlohmann/json.hpp>

#include "runtime/common/choose_strategy.h"
#include "runtime/common/model_folder.h"
#include "runtime/text/tokenizer_folder.h"
#include "runtime/train/exchange.h"
#include "runtime/train/first_weights.h"
#include "runtime/train/job_tokenizer.h"

namespace lockstep::runtime {
namespace {

using common::Error;
using common::ErrorCode;
using common::ExitCode;
using common::Result;
using nlohmann::json;

template <typename T>
Result<T> of_teacher(Result<T> done) {
  if (done) return done;
  const Error& error = done.error();
  return Error{error.code, "train.distill.teacher: " + error.message, error.hint};
}

template <typename T>
T agree_on_weights(RankState& s, Result<T> mine, std::string_view what) {
  const ExitCode code = mine ? ExitCode::kSucceeded : exit_code_of_weights(mine.error());
  return agree_on(*s.collective, of_teacher(std::move(mine)), code, what);
}

// The tokens of a tokenizer.json by their ids.
Result<json> tokens_in(const std::string& path) {
  ASSIGN_OR_RETURN(const TokenizerFolder files, read_tokenizer_folder(path));
  const json parsed = json::parse(files.tokenizer_json, nullptr, /*allow_exceptions=*/false);
  const auto at = [&parsed](const char* pointer) {
    const json::json_pointer place(pointer);
    return parsed.is_object() && parsed.contains(place) ? parsed.at(place) : json();
  };
  json added = json::object();
  for (const json& token : at("/added_tokens")) {
    if (token.is_object()) added[token.value("content", "")] = token.value("id", json());
  }
  return json{{"vocabulary", at("/model/vocab")}, {"added", std::move(added)}};
}

bool has_tokenizer_json(const std::string& folder) {
  if (folder.empty()) return false;
  const std::optional<std::string> found = common::find_tokenizer(folder);
  return found && found->ends_with("/tokenizer.json");
}

// Where one of both has no tokenizer.json there is nothing to compare but the size of the
// vocabulary, which was.
Result<void> check_tokenizer(const common::TrainConfig& config) {
  const bool has_own = config.tokenizer.type == common::TokenizerConfig::Type::kHuggingFace;
  const std::string& own = has_own ? config.tokenizer.path : config.model_source.path;
  if (!(has_own || has_tokenizer_json(own)) || !has_tokenizer_json(config.distill.teacher))
    return {};
  return check_same_tokens(own, config.distill.teacher);
}

void require_same_weights(RankState& s, const std::string& fingerprint) {
  require_as_rank0(*s.collective, fingerprint,
                   {ExitCode::kInvalidData,
                    "train.distill.teacher: rank " + std::to_string(s.env.rank) +
                        " sees other weights in " + s.config().distill.teacher + " than rank 0",
                    "mount the same files on all ranks"},
                   "comparing the weights of distill.teacher");
}

}  // namespace

Result<void> check_same_tokens(const std::string& ours, const std::string& theirs) {
  ASSIGN_OR_RETURN(const json own, tokens_in(ours));
  ASSIGN_OR_RETURN(const json other, tokens_in(theirs));
  if (own == other) return {};
  return Error{ErrorCode::kInvalidArgument,
               "the tokenizer in " + theirs + " has other tokens than that in " + ours,
               "name a teacher with the tokens of the model that learns"};
}

void open_teacher(RankState& s) {
  const common::TrainConfig& config = s.config();
  if (config.task != common::Task::kDistill) return;
  Result<void> checked;
  if (s.is_rank0()) checked = check_tokenizer(config);
  const ExitCode code = checked ? ExitCode::kSucceeded : exit_code_of_tokenizer(checked.error());
  agree_on(*s.collective, of_teacher(std::move(checked)), code, "looking at the teacher's tokens");

  s.teacher =
      std::make_unique<Teacher>(config, common::strategy_named(s.strategy).value(), *s.collective);
  const PretrainedWeights weights = agree_on_weights(
      s, PretrainedWeights::open(config.distill.teacher, config.distill.model, s.teacher->units()),
      "opening the weights of distill.teacher");
  const std::string fingerprint =
      agree_on_weights(s, weights.fingerprint(), "looking at the weights of distill.teacher");
  require_same_weights(s, fingerprint);
  Result<void> filled;
  s.teacher->fill([&](int64_t unit, int64_t begin_elem, std::span<float> out) {
    if (filled) filled = weights.read(unit, begin_elem, out);
  });
  agree_on_weights(s, std::move(filled), "reading the weights of distill.teacher");
  s.pretrained_fingerprint.append("+").append(fingerprint);
  if (s.is_rank0()) {
    s.log.info("teacher", {{"folder", config.distill.teacher}, {"fingerprint", fingerprint}});
  }
}

void with_teacher(RankState& s, MicroBatchIo& io, const std::function<void()>& run) {
  if (s.teacher == nullptr) return run();
  const Distillation told = s.teacher->read(io);
  io.distillation = &told;
  run();
  io.distillation = nullptr;
  s.teacher->rest();
}

}  // namespace lockstep::runtime

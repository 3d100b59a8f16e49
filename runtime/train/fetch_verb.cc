#include "runtime/train/fetch_verb.h"

#include <chrono>
#include <condition_variable>
#include <iostream>
#include <mutex>
#include <stop_token>
#include <thread>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "runtime/common/train_config.h"
#include "runtime/hub/fetch_input.h"
#include "runtime/train/job_inputs.h"
#include "runtime/train/rank_ending.h"
#include "runtime/train/run_error.h"

namespace lockstep::runtime {
namespace {

using common::ExitCode;
using common::HubInput;
using common::HubKind;
using common::Result;

constexpr std::chrono::seconds kTellEvery{10};

// Tells on standard error how far a fetch is, from construction to destruction.
class ProgressLines {
 public:
  explicit ProgressLines(const FetchProgress& progress) : progress_(progress) {
    teller_ = std::jthread([this](const std::stop_token& stop) { tell(stop); });
  }

 private:
  void tell(const std::stop_token& stop) {
    std::mutex mutex;
    std::condition_variable_any told_to_end;
    std::unique_lock lock(mutex);
    while (
        !told_to_end.wait_for(lock, stop, kTellEvery, [&stop] { return stop.stop_requested(); })) {
      std::cerr << "fetched " << progress_.bytes_come << " of " << progress_.bytes_wanted
                << " bytes\n";
    }
  }

  const FetchProgress& progress_;
  std::jthread teller_;
};

// What is asked for, as fields of a job.
struct Request {
  common::TrainConfig train;
  std::vector<HubInput> inputs;
};

Request of_reference(const FetchVerbOptions& options) {
  const bool is_data =
      options.is_data || options.is_validation || options.reference.starts_with("hf://datasets/");
  Request request;
  request.train.model_source.is_pretrained = true;
  const HubKind kind = is_data ? HubKind::kDataset : HubKind::kModel;
  request.inputs.push_back(
      {.field = !is_data                ? "model.path"
                : options.is_validation ? "data.validation"
                                        : "data.train",
       .text = options.reference,
       .reference = value_or_raise(common::parse_hub_reference(options.reference, kind),
                                   ExitCode::kInvalidConfig)});
  return request;
}

Request of_job(const std::string& text) {
  const nlohmann::json train = nlohmann::json::parse(text, nullptr, false);
  const common::Problems problems = common::check_train(train, 1, "train");
  if (common::has_errors(problems)) refuse(common::to_string(problems.front(), "--train"));
  return {.train = common::decode_train(train), .inputs = common::hub_inputs(train)};
}

}  // namespace

std::string fetch_verb(const FetchVerbOptions& options) {
  if (options.reference.empty() == options.train.empty()) {
    refuse("fetch: name a reference, hf://ORG/NAME, or --train, and not both");
  }
  const bool is_job = !options.train.empty();
  const Request request = is_job ? of_job(options.train) : of_reference(options);
  const HubSession session = {
      .settings = value_or_raise(read_hub_settings(look_up_environment), ExitCode::kInvalidConfig),
      .stop = {}};
  const auto value_of = [](auto result) {
    if (!result) throw RunError(to_failure(exit_code_of_hub(result.error()), result.error()));
    return std::move(result).value();
  };
  const HubCommits commits = value_of(find_commits(session, request.inputs, {}));
  FetchProgress progress;
  const ProgressLines lines(progress);
  std::string places;
  for (const HubInput& input : request.inputs) {
    const std::string& commit = commits.at(repository_name(input.reference));
    const Fetched fetched = value_of(fetch_input(session, input, commit, request.train, progress));
    std::cerr << input.text << " is commit " << commit << ": " << fetched.num_files << " files\n";
    places.append(places.empty() ? "" : "\n");
    if (is_job) places.append("train.").append(input.field).append(" ");
    places.append(fetched.place);
  }
  return places;
}

}  // namespace lockstep::runtime

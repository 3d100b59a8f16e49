#include "runtime/train/job_inputs.h"

#include <chrono>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "runtime/checkpoint/reader.h"
#include "runtime/hub/fetch_input.h"
#include "runtime/train/exchange.h"
#include "runtime/train/rank_ending.h"
#include "runtime/train/side_work.h"

namespace lockstep::runtime {
namespace {

using common::Error;
using common::ErrorCode;
using common::ExitCode;
using common::FieldTexts;
using common::HubInput;
using common::Result;
using Clock = std::chrono::steady_clock;

constexpr std::chrono::seconds kLogEvery{10};

// What the checkpoint knows that training goes on from. One that cannot be read says so later.
HubCommits recorded_commits(const RankState& s, bool may_resume) {
  if (may_resume) {
    const Result<OpenedCheckpoint> newest = open_newest(s.env.output);
    if (newest) return newest->reader.manifest().hub_commits;
  }
  const std::string& named = s.config().checkpoint.resume_from;
  if (named.empty()) return {};
  const Result<CheckpointReader> reader = CheckpointReader::open(named);
  return reader ? reader->manifest().hub_commits : HubCommits();
}

Result<HubSession> open_session(const std::stop_token& stop) {
  ASSIGN_OR_RETURN(HubSettings settings, read_hub_settings(look_up_environment));
  return HubSession{.settings = std::move(settings), .stop = stop};
}

RunFailure failure_of(const Error& error) {
  return to_failure(exit_code_of_hub(error), error);
}

// Rank 0's work: fills s.hub_commits.
std::optional<RunFailure> find_all_commits(RankState& s, const std::vector<HubInput>& inputs,
                                           bool may_resume, const std::stop_token& stop) {
  const Result<HubSession> session = open_session(stop);
  if (!session) return failure_of(session.error());
  const HubCommits known = recorded_commits(s, may_resume);
  Result<HubCommits> found = find_commits(*session, inputs, known);
  if (!found) return failure_of(found.error());
  s.hub_commits = std::move(found).value();
  for (const auto& [name, commit] : s.hub_commits) {
    const char* const from = known.contains(name)           ? "checkpoint"
                             : session->settings.is_offline ? "cache"
                                                            : session->settings.endpoint.c_str();
    s.log.info("revision", {{"reference", name}, {"commit", commit}, {"from", from}});
  }
  return std::nullopt;
}

// The work of a rank that has to have all inputs: fills `places`.
std::optional<RunFailure> fetch_all(const RankState& s, const std::vector<HubInput>& inputs,
                                    FetchProgress& progress, FieldTexts& places,
                                    const std::stop_token& stop) {
  const Result<HubSession> session = open_session(stop);
  if (!session) return failure_of(session.error());
  for (const HubInput& input : inputs) {
    const std::string& commit = s.hub_commits.at(repository_name(input.reference));
    const int64_t before = progress.bytes_come;
    Result<Fetched> fetched = fetch_input(*session, input, commit, s.config(), progress);
    if (!fetched) return failure_of(fetched.error());
    s.log.info("fetched", {{"field", "train." + input.field},
                           {"reference", input.text},
                           {"files", fetched->num_files},
                           {"bytes", progress.bytes_come - before},
                           {"place", fetched->place}});
    if (!fetched->is_known_whole) {
      s.log.warning("perhaps not whole",
                    {{"place", fetched->place},
                     {"message", "HF_HUB_OFFLINE is set, and this commit was never listed here"}});
    }
    places[input.field] = std::move(fetched->place);
  }
  return std::nullopt;
}

// A sign of life, and from time to time a line of the log.
class Teller {
 public:
  Teller(const RankState& s, StatusBoard& board, const FetchProgress& progress)
      : s_(s), board_(board), progress_(progress) {}

  void operator()() {
    board_.set_phase("fetching");
    if (Clock::now() - told_ < kLogEvery || progress_.bytes_wanted == 0) return;
    told_ = Clock::now();
    s_.log.info("fetching",
                {{"bytes", progress_.bytes_come.load()}, {"of", progress_.bytes_wanted.load()}});
  }

 private:
  const RankState& s_;
  StatusBoard& board_;
  const FetchProgress& progress_;
  Clock::time_point told_ = Clock::now();
};

void tell_commits(RankState& s) {
  const std::string mine = nlohmann::json(s.hub_commits).dump();
  const std::string told = gather_texts(*s.collective, mine, "commits of inputs").front();
  s.hub_commits = nlohmann::json::parse(told).get<HubCommits>();
}

}  // namespace

ExitCode exit_code_of_hub(const Error& error) {
  switch (error.code) {
    case ErrorCode::kInvalidArgument:
      return ExitCode::kInvalidConfig;
    case ErrorCode::kNotFound:
    case ErrorCode::kPermissionDenied:
      return ExitCode::kInputNotFound;
    default:
      return ExitCode::kInputUnavailable;
  }
}

void fetch_inputs(RankState& s, StatusBoard& board, bool may_resume) {
  const std::vector<HubInput> inputs = common::hub_inputs(nlohmann::json::parse(s.job.train_json));
  if (inputs.empty()) return;
  FetchProgress progress;
  FieldTexts places;
  Teller teller(s, board, progress);
  const auto together = [&](bool takes_part, auto run) {
    SideWork work{.run = nullptr,
                  .progress = [&progress] { return progress.bytes_come.load(); },
                  .got_on = [&teller] { teller(); },
                  .what = "fetching inputs"};
    if (takes_part) work.run = run;
    work_aside(*s.collective, work);
  };
  const auto fetch = [&](const std::stop_token& stop) {
    return fetch_all(s, inputs, progress, places, stop);
  };
  together(s.is_rank0(), [&](const std::stop_token& stop) {
    return find_all_commits(s, inputs, may_resume, stop);
  });
  tell_commits(s);
  together(s.env.local_rank == 0, fetch);
  together(s.env.local_rank != 0, fetch);
  Result<common::JobFile> known = common::with_places(s.job, places);
  const bool is_missing = !known && known.error().code != ErrorCode::kInvalidArgument;
  s.job = agree_on(*s.collective, std::move(known),
                   is_missing ? ExitCode::kInputNotFound : ExitCode::kInvalidConfig,
                   "reading the model's config.json");
  board.set_phase("starting");
}

}  // namespace lockstep::runtime

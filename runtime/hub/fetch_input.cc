#include "runtime/hub/fetch_input.h"

#include <utility>

namespace lockstep::runtime {
namespace {

using common::Error;
using common::HubInput;
using common::Result;

Error of_input(const HubInput& input, const Error& error) {
  return {error.code, "train." + input.field + ": " + error.message, error.hint};
}

Result<Fetched> fetch_by_field(const HubSession& session, const HubInput& input,
                               const std::string& commit, const common::TrainConfig& train,
                               FetchProgress& progress) {
  if (input.field == "model.path") {
    return fetch_model(session, input.reference, commit, train.model_source.is_pretrained,
                       progress);
  }
  if (input.field == "tokenizer.path") {
    return fetch_tokenizer(session, input.reference, commit, progress);
  }
  if (input.field == "distill.teacher") {
    return fetch_model(session, input.reference, commit, /*with_weights=*/true, progress);
  }
  const DataPart part = input.field == "data.validation" ? DataPart::kValidation : DataPart::kTrain;
  return fetch_data(session, input.reference, commit, part, train.data.format, progress);
}

}  // namespace

Result<HubCommits> find_commits(const HubSession& session, const std::vector<HubInput>& inputs,
                                const HubCommits& known) {
  HubCommits commits;
  for (const HubInput& input : inputs) {
    const std::string name = repository_name(input.reference);
    if (commits.contains(name)) continue;
    if (const auto recorded = known.find(name); recorded != known.end()) {
      commits.insert(*recorded);
      continue;
    }
    Result<std::string> commit = resolve_revision(session, input.reference);
    if (!commit) return of_input(input, commit.error());
    commits[name] = std::move(commit).value();
  }
  return commits;
}

Result<Fetched> fetch_input(const HubSession& session, const HubInput& input,
                            const std::string& commit, const common::TrainConfig& train,
                            FetchProgress& progress) {
  Result<Fetched> fetched = fetch_by_field(session, input, commit, train, progress);
  if (!fetched) return of_input(input, fetched.error());
  return fetched;
}

}  // namespace lockstep::runtime

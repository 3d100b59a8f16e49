// The inputs of a job that are on the hub: which commits they are, and what of them is fetched.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "runtime/common/hub_inputs.h"
#include "runtime/common/train_config.h"
#include "runtime/hub/fetch.h"

namespace lockstep::runtime {

using HubCommits = std::map<std::string, std::string>;  // by repository_name()

// The commits of all `inputs`: as in `known`, else what their revisions are now. Errors as
// resolve_revision(); messages name the field.
common::Result<HubCommits> find_commits(const HubSession& session,
                                        const std::vector<common::HubInput>& inputs,
                                        const HubCommits& known);

// What a job with `train` needs of `input`. Blocks and fails as fetch_model() and its kin; messages
// name the field.
common::Result<Fetched> fetch_input(const HubSession& session, const common::HubInput& input,
                                    const std::string& commit, const common::TrainConfig& train,
                                    FetchProgress& progress);

}  // namespace lockstep::runtime

// Models and data of the Hugging Face hub as paths of this machine.
#pragma once

#include <string>

#include "runtime/common/hub_reference.h"
#include "runtime/common/result.h"
#include "runtime/common/train_config.h"
#include "runtime/hub/choose_files.h"
#include "runtime/hub/download.h"
#include "runtime/hub/hub_session.h"

namespace lockstep::runtime {

// The commit that the reference's revision is now; in offline mode, when it was last looked up. A
// revision that is a commit is itself. Errors: those of error_of(); kNotFound in offline mode.
common::Result<std::string> resolve_revision(const HubSession& session,
                                             const common::HubReference& reference);

struct Fetched {
  std::string place;  // of this machine: a folder, or a pattern of files
  int64_t num_files = 0;
  // False in offline mode if the commit was never listed here: whether files lack is not known.
  bool is_known_whole = true;
};

// The folder of a model, with its files that training needs: config.json, what makes tokens, and
// with `weights` its safetensors. Blocks for as long as they take to come.
// Errors: those of choose_model_files(), choose_shards() and fetch_files(). Messages name the file.
common::Result<Fetched> fetch_model(const HubSession& session,
                                    const common::HubReference& reference,
                                    const std::string& commit, bool weights,
                                    FetchProgress& progress);

// A tokenizer: the file that the reference names, or the folder. Blocks and fails as above.
common::Result<Fetched> fetch_tokenizer(const HubSession& session,
                                        const common::HubReference& reference,
                                        const std::string& commit, FetchProgress& progress);

// The files of a data set, as a pattern in the words of data.train. Blocks and fails as above.
common::Result<Fetched> fetch_data(const HubSession& session, const common::HubReference& reference,
                                   const std::string& commit, DataPart part,
                                   common::DataConfig::Format format, FetchProgress& progress);

}  // namespace lockstep::runtime

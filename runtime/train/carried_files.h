// What an exported model has beside its weights and config: the files of its tokenizer.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "runtime/common/result.h"
#include "runtime/common/train_config.h"

namespace lockstep::runtime {

struct CarriedFiles {
  nlohmann::json special_ids = nlohmann::json::object();   // "bos_token_id" and its like
  std::vector<std::pair<std::string, std::string>> files;  // name, bytes
};

// Reads what the export of a job's model takes over: of model.path, where the weights come from,
// the special ids of its config.json and its generation_config.json; the files of the tokenizer
// that the job names, or of the one beside those weights. Special ids that config.json does not
// have are the tokenizer's.
// Errors: those of read_special_ids(), read_text_file() and read_tokenizer_folder(); a file that is
// not there is none.
common::Result<CarriedFiles> read_carried_files(const common::TrainConfig& config);

}  // namespace lockstep::runtime

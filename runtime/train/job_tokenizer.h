// The tokenizer that a job names: what makes tokens of its texts.
#pragma once

#include <memory>

#include "runtime/common/exit_code.h"
#include "runtime/common/result.h"
#include "runtime/common/train_config.h"
#include "runtime/data/tokenizer.h"

namespace lockstep::runtime {

// Opens it. Errors: of its files; kInvalidArgument if tokens of it that texts have lie beyond the
// model's vocabulary, or bytes are asked for beside weights that a tokenizer belongs to.
common::Result<std::unique_ptr<Tokenizer>> open_job_tokenizer(const common::TrainConfig& config);

// Of an error of the job's tokenizer.
common::ExitCode exit_code_of_tokenizer(const common::Error& error);

}  // namespace lockstep::runtime

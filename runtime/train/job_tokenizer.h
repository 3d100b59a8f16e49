// The tokenizer that a job names: what makes tokens of its texts.
#pragma once

#include <chrono>
#include <memory>

#include "runtime/common/exit_code.h"
#include "runtime/common/result.h"
#include "runtime/common/train_config.h"
#include "runtime/data/conversation_tokenizer.h"
#include "runtime/data/tokenizer.h"

namespace lockstep::runtime {

// Opens it. Errors: of its files; kInvalidArgument if tokens of it that texts have lie beyond the
// model's vocabulary, or bytes are asked for beside weights that a tokenizer belongs to.
common::Result<std::unique_ptr<Tokenizer>> open_job_tokenizer(const common::TrainConfig& config);

// Opens what makes rows of the conversations of a job: those of `layout`.
//   now: of templates that ask for it.
// Errors as open_job_tokenizer(), and for a template that is missing.
common::Result<std::unique_ptr<ConversationTokenizer>> open_job_conversations(
    const common::TrainConfig& config, const ConversationLayout& layout,
    std::chrono::system_clock::time_point now);

// Of an error of the job's tokenizer.
common::ExitCode exit_code_of_tokenizer(const common::Error& error);

}  // namespace lockstep::runtime

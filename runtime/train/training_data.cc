#include "runtime/train/training_data.h"

#include <chrono>
#include <filesystem>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <system_error>
#include <utility>

#include "runtime/data/byte_tokenizer.h"
#include "runtime/data/corpus.h"
#include "runtime/data/data_files.h"
#include "runtime/data/token_file.h"
#include "runtime/train/exchange.h"
#include "runtime/train/job_tokenizer.h"

namespace lockstep::runtime {
namespace {

using common::Error;
using common::ErrorCode;
using common::ExitCode;
using common::Result;

// Rank 0 tokenizes for so long before it meets the others again: their wait for it never nears
// communication.timeoutSeconds.
constexpr std::chrono::seconds kTokenizeSlice{1};

ExitCode exit_code_of_data(const Error& error) {
  const bool wrong_data =
      error.code == ErrorCode::kInvalidArgument || error.code == ErrorCode::kDataLoss;
  return wrong_data ? ExitCode::kInvalidData : ExitCode::kInputNotFound;
}

template <typename T>
T agree_on_data(RankState& s, Result<T> mine, std::string_view what) {
  const ExitCode code = mine ? ExitCode::kSucceeded : exit_code_of_data(mine.error());
  return agree_on(*s.collective, std::move(mine), code, what);
}

// Goes on only if all ranks have the text that rank 0 has.
void require_same(RankState& s, const std::string& mine, const std::string& pattern) {
  require_as_rank0(
      *s.collective, mine,
      {ExitCode::kInvalidData,
       "rank " + std::to_string(s.env.rank) + " sees other data in " + pattern + " than rank 0",
       "mount the same files on all ranks"},
      "comparing the data");
}

std::string tokens_folder(const RankState& s) {
  return s.env.output + "/tokens";
}

// Writing failed, or what was read cannot be trained on.
ExitCode exit_code_of_tokenizing(const Error& error) {
  const bool wrong_data =
      error.code == ErrorCode::kInvalidArgument || error.code == ErrorCode::kDataLoss;
  return wrong_data                           ? ExitCode::kInvalidData
         : error.code == ErrorCode::kNotFound ? ExitCode::kInputNotFound
                                              : ExitCode::kOutputUnwritable;
}

// Writes the token file `path` on rank 0 while the others wait.
void write_token_file(RankState& s, Disk& disk, const std::string& path,
                      const TokenizeOptions& options, const Tokenizer& tokenizer) {
  std::unique_ptr<Tokenization> work;
  if (s.is_rank0()) work = std::make_unique<Tokenization>(disk, path, options, tokenizer);
  for (bool done = false; !done;) {
    Result<bool> advanced = false;
    if (work) advanced = work->advance(kTokenizeSlice);
    const ExitCode code =
        advanced ? ExitCode::kSucceeded : exit_code_of_tokenizing(advanced.error());
    const bool mine = agree_on(*s.collective, std::move(advanced), code, "tokenizing the data");
    done = !gather_texts(*s.collective, mine ? "done" : "", "tokenizing the data").front().empty();
  }
  if (!work) return;
  s.log.info("tokenized", {{"file", path},
                           {"tokenizer", tokenizer.name()},
                           {"documents", work->header().num_documents},
                           {"tokens", work->header().num_tokens},
                           {"empty_skipped", work->counts().empty_documents}});
}

bool is_text(SourceKind kind) {
  return kind == SourceKind::kText || kind == SourceKind::kJsonText;
}

// What makes tokens of the job's texts: on rank 0, which alone does it. Others get that of bytes.
std::unique_ptr<Tokenizer> agree_on_tokenizer(RankState& s) {
  Result<std::unique_ptr<Tokenizer>> mine = std::unique_ptr<Tokenizer>();
  if (s.is_rank0()) mine = open_job_tokenizer(s.config());
  const ExitCode code = mine ? ExitCode::kSucceeded : exit_code_of_tokenizer(mine.error());
  std::unique_ptr<Tokenizer> tokenizer =
      agree_on(*s.collective, std::move(mine), code, "opening the tokenizer");
  return tokenizer ? std::move(tokenizer) : std::make_unique<ByteTokenizer>();
}

// The token file in the output that JSON lines or texts became; made if it is not there yet.
std::string token_file_for(RankState& s, Disk& disk, const DataFiles& data,
                           const Tokenizer& tokenizer) {
  const TokenizeOptions options{.files = data.paths.files,
                                .kind = data.kind,
                                .text_column = s.config().data.text_column,
                                .num_token_ids = s.config().model.vocab_size};
  Result<std::string> name = std::string();
  if (s.is_rank0()) name = token_file_name(options, tokenizer);
  const std::string mine = agree_on_data(s, std::move(name), "looking at the data");
  const std::string path =
      tokens_folder(s) + "/" + gather_texts(*s.collective, mine, "token file").front();
  std::string usable;
  if (s.is_rank0() && TokenFile::open(path)) usable = "usable";
  if (gather_texts(*s.collective, usable, "token file").front().empty()) {
    write_token_file(s, disk, path, options, tokenizer);
  }
  return path;
}

template <typename Source>
Result<std::unique_ptr<TokenSource>> to_pointer(Result<Source> source) {
  if (!source) return source.error();
  return std::unique_ptr<TokenSource>(std::make_unique<Source>(std::move(source).value()));
}

Result<void> check_vocabulary(const RankState& s, const TokenSource& source,
                              const std::string& pattern) {
  if (source.num_token_ids() <= s.config().model.vocab_size) return {};
  return Error{ErrorCode::kInvalidArgument,
               pattern + " holds token " + std::to_string(source.num_token_ids() - 1) +
                   ", but model.config.vocab_size is " +
                   std::to_string(s.config().model.vocab_size),
               "use the model's tokenizer, or a larger vocab_size"};
}

// What an opened pattern became: the samples, and the token file of the output that they lie in.
struct Opened {
  Samples samples;
  std::string token_file;
};

Result<Samples> to_samples(const RankState& s, std::unique_ptr<TokenSource> source,
                           const std::string& pattern) {
  RETURN_IF_ERROR(check_vocabulary(s, *source, pattern));
  return Samples::create(std::move(source), {.sequence_length = s.config().data.sequence_length,
                                             .packing = s.config().data.packing});
}

Opened open_pattern(RankState& s, Disk& disk, const std::string& pattern, const char* name) {
  const DataFiles data =
      agree_on_data(s, find_data(pattern, s.config().data.format), "finding the data");
  require_same(s, "kind " + std::to_string(static_cast<int>(data.kind)), pattern);
  const std::unique_ptr<Tokenizer> tokenizer =
      is_text(data.kind) ? agree_on_tokenizer(s) : std::make_unique<ByteTokenizer>();
  const bool is_mapped =  // files of bytes are their own tokens
      data.kind == SourceKind::kText &&
      s.config().tokenizer.type == common::TokenizerConfig::Type::kBytes;
  std::string token_file;
  if (!is_mapped && data.kind != SourceKind::kTokenFiles) {
    token_file = token_file_for(s, disk, data, *tokenizer);
  }
  std::unique_ptr<TokenSource> source = agree_on_data(
      s,
      is_mapped
          ? to_pointer(Corpus::open(data.paths.files))
          : to_pointer(TokenFiles::open(token_file.empty() ? data.paths.files
                                                           : std::vector<std::string>{token_file})),
      "opening the data");
  require_same(s, source->fingerprint(), pattern);
  Samples samples = agree_on_data(s, to_samples(s, std::move(source), pattern), "opening the data");
  if (s.is_rank0()) {
    const Samples::Truncation truncation = samples.truncation();
    s.log.info("data", {{"data", name},
                        {"files", static_cast<int64_t>(data.paths.files.size())},
                        {"binary_skipped", data.paths.num_binary_skipped},
                        {"hidden_skipped", data.paths.num_hidden_skipped},
                        {"empty_skipped", data.paths.num_empty_skipped},
                        {"documents", samples.source().num_documents()},
                        {"tokens", samples.source().num_tokens()},
                        {"samples", samples.num_samples()},
                        {"documents_truncated", truncation.documents},
                        {"tokens_truncated", truncation.tokens}});
  }
  return {.samples = std::move(samples), .token_file = token_file};
}

// Removes token files of other data and what a crash left: the output keeps what it needs.
void remove_other_token_files(const RankState& s, Disk& disk, const std::set<std::string>& kept) {
  std::error_code error;
  std::vector<std::string> others;
  for (std::filesystem::directory_iterator entry(tokens_folder(s), error);
       !error && entry != std::filesystem::directory_iterator(); entry.increment(error)) {
    const std::string path = entry->path().string();
    if (!kept.contains(path)) others.push_back(path);
  }
  for (const std::string& path : others) {
    if (const Result<void> removed = disk.remove_tree(path); !removed) {
      s.log.warning("an old token file stays", {{"message", removed.error().message}});
    }
  }
}

// Turns epochs into steps, now that the number of samples is known.
void resolve_epochs(RankState& s) {
  const double epochs = s.config().epochs;
  if (epochs == 0) return;
  const int64_t steps = s.samples->steps_in(epochs);
  Result<common::TrainConfig> resolved = s.job.train;
  if (steps < 1) {
    resolved = Error{ErrorCode::kInvalidArgument,
                     "train.epochs: they are less than one global batch of " +
                         std::to_string(s.config().batch.global_batch_size) + " samples, of " +
                         std::to_string(s.samples->samples_per_epoch()) + " in an epoch",
                     "raise epochs, or lower train.batch.globalBatchSize"};
  } else {
    resolved = common::with_steps(s.job.train_json, steps);
  }
  s.job.train =
      agree_on(*s.collective, std::move(resolved), ExitCode::kInvalidConfig, "counting the steps");
  if (s.is_rank0()) s.log.info("epochs", {{"epochs", epochs}, {"steps", steps}});
}

}  // namespace

void open_data(RankState& s, Disk& disk) {
  const common::DataConfig data = s.config().data;
  Opened train = open_pattern(s, disk, data.train, "train");
  s.samples.emplace(
      agree_on_data(s,
                    SampleSource::create(std::move(train.samples),
                                         {.global_batch_size = s.config().batch.global_batch_size,
                                          .micro_batch_size = s.config().batch.micro_batch_size,
                                          .shuffle = data.shuffle,
                                          .seed = s.config().seed}),
                    "opening the data"));
  std::set<std::string> kept = {train.token_file};
  if (!data.validation.empty()) {
    Opened validation = open_pattern(s, disk, data.validation, "validation");
    s.validation.emplace(std::move(validation.samples));
    kept.insert(validation.token_file);
  }
  if (s.is_rank0()) remove_other_token_files(s, disk, kept);
  resolve_epochs(s);
}

}  // namespace lockstep::runtime

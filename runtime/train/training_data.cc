#include "runtime/train/training_data.h"

#include <charconv>
#include <chrono>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <system_error>
#include <utility>

#include "runtime/checkpoint/output_folder.h"
#include "runtime/common/text_file.h"
#include "runtime/data/byte_tokenizer.h"
#include "runtime/data/conversation_tokenizer.h"
#include "runtime/data/corpus.h"
#include "runtime/data/data_files.h"
#include "runtime/data/token_file.h"
#include "runtime/train/exchange.h"
#include "runtime/train/job_tokenizer.h"
#include "runtime/train/long_phase.h"
#include "runtime/train/reference_log_probs.h"
#include "runtime/train/training_samples.h"

namespace lockstep::runtime {
namespace {

using common::Error;
using common::ErrorCode;
using common::ExitCode;
using common::Result;

// Rank 0 tokenizes for so long before it meets the others again: their wait for it never nears
// communication.timeoutSeconds.
constexpr std::chrono::seconds kTokenizeSlice{1};

// In the folder of tokens: the time that templates are told, in seconds since 1970.
constexpr const char* kTemplateTime = "strftime_now";

// Goes on only if all ranks have the text that rank 0 has.
void require_same(RankState& s, const std::string& mine, const std::string& pattern) {
  require_as_rank0(
      *s.collective, mine,
      {ExitCode::kInvalidData,
       "rank " + std::to_string(s.env.rank) + " sees other data in " + pattern + " than rank 0",
       "mount the same files on all ranks"},
      "comparing the data");
}

// Writing failed, or what was read cannot be trained on.
ExitCode exit_code_of_tokenizing(const Error& error) {
  const bool wrong_data =
      error.code == ErrorCode::kInvalidArgument || error.code == ErrorCode::kDataLoss;
  return wrong_data                           ? ExitCode::kInvalidData
         : error.code == ErrorCode::kNotFound ? ExitCode::kInputNotFound
                                              : ExitCode::kOutputUnwritable;
}

// What makes rows of tokens of what lies in files: on rank 0, which alone does it.
struct RowMakers {
  std::unique_ptr<Tokenizer> texts = std::make_unique<ByteTokenizer>();
  std::unique_ptr<ConversationTokenizer> conversations;  // null: there are none
};

// Writes the token file `path` on rank 0 while the others wait.
void write_token_file(RankState& s, Disk& disk, StatusBoard& board, const std::string& path,
                      const TokenizeOptions& options, const Tokenizer& tokenizer) {
  LongPhase phase(board, "tokenizing");
  std::unique_ptr<Tokenization> work;
  if (s.is_rank0()) work = std::make_unique<Tokenization>(disk, path, options, tokenizer);
  for (bool done = false; !done;) {
    Result<bool> advanced = false;
    if (work) advanced = work->advance(kTokenizeSlice);
    const ExitCode code =
        advanced ? ExitCode::kSucceeded : exit_code_of_tokenizing(advanced.error());
    const bool mine = agree_on(*s.collective, std::move(advanced), code, "tokenizing the data");
    done = !gather_texts(*s.collective, mine ? "done" : "", "tokenizing the data").front().empty();
    const int64_t rows = work ? work->counts().rows : 0;
    if (phase.got_on({.done = rows}) && s.is_rank0()) {
      s.log.info("tokenizing", {{"file", path}, {"rows", rows}});
    }
  }
  phase.end();
  if (!work) return;
  s.log.info("tokenized", {{"file", path},
                           {"tokenizer", work->header().tokenizer},
                           {"documents", work->header().num_documents},
                           {"tokens", work->header().num_tokens},
                           {"empty_skipped", work->counts().empty_documents},
                           {"unlearned_skipped", work->counts().unlearned_rows}});
}

bool is_text(SourceKind kind) {
  return kind == SourceKind::kText || kind == SourceKind::kRowTexts;
}

// Agrees on what `open` returns on rank 0, which alone calls it; null on the others.
template <typename Opened>
std::unique_ptr<Opened> agree_on_opened(
    RankState& s, const std::function<Result<std::unique_ptr<Opened>>()>& open) {
  Result<std::unique_ptr<Opened>> mine = std::unique_ptr<Opened>();
  if (s.is_rank0()) mine = open();
  const ExitCode code = mine ? ExitCode::kSucceeded : exit_code_of_tokenizer(mine.error());
  return agree_on(*s.collective, std::move(mine), code, "opening the tokenizer");
}

// What makes rows of the conversations in `data`; says on rank 0 what was found in them.
std::unique_ptr<ConversationTokenizer> agree_on_conversations(RankState& s, Disk& disk,
                                                              const DataFiles& data,
                                                              const std::string& name) {
  Result<ConversationLayout> found = ConversationLayout();
  if (s.is_rank0()) {
    found = find_layout_of(data.paths.files, s.config().data.conversation_columns,
                           is_preference(s.config().task) ? find_pair_layout : find_layout);
  }
  const ConversationLayout layout = agree_on_data(s, std::move(found), "looking for conversations");
  Result<std::chrono::system_clock::time_point> now = std::chrono::system_clock::time_point();
  if (s.is_rank0()) now = template_time(disk, tokens_folder(s.env.output));
  const auto told =
      agree_on(*s.collective, std::move(now), ExitCode::kOutputUnwritable, "telling the time");
  auto opened = agree_on_opened<ConversationTokenizer>(
      s, [&] { return open_job_conversations(s.config(), layout, told); });
  if (s.is_rank0()) {
    s.log.info("conversations",
               {{"data", name}, {"layout", to_text(layout)}, {"learned", opened->rule()}});
  }
  return opened;
}

// Texts have no response to learn alone.
Result<void> check_loss(const common::DataConfig& config, SourceKind kind,
                        const std::string& pattern) {
  const bool learns_responses = config.loss == common::DataConfig::Loss::kResponse;
  if (!is_text(kind) || !learns_responses) return {};
  return Error{ErrorCode::kInvalidArgument,
               "train.data.loss: response, but " + pattern + " holds texts",
               "give rows with conversations, or set train.data.loss: all"};
}

RowMakers agree_on_row_makers(RankState& s, Disk& disk, const DataFiles& data,
                              const std::string& name) {
  RowMakers makers;
  if (data.kind == SourceKind::kConversations) {
    makers.conversations = agree_on_conversations(s, disk, data, name);
  } else if (is_text(data.kind)) {
    auto opened = agree_on_opened<Tokenizer>(s, [&] { return open_job_tokenizer(s.config()); });
    if (opened) makers.texts = std::move(opened);
  }
  return makers;
}

// The token file in the output that rows or texts became; made if it is not there yet.
std::string token_file_for(RankState& s, Disk& disk, StatusBoard& board, const DataFiles& data,
                           const RowMakers& makers) {
  const TokenizeOptions options{.files = data.paths.files,
                                .kind = data.kind,
                                .text_column = s.config().data.text_column,
                                .num_token_ids = s.config().model.vocab_size,
                                .conversations = makers.conversations.get()};
  Result<std::string> name = std::string();
  if (s.is_rank0()) name = token_file_name(options, *makers.texts);
  const std::string mine = agree_on_data(s, std::move(name), "looking at the data");
  const std::string path =
      tokens_folder(s.env.output) + "/" + gather_texts(*s.collective, mine, "token file").front();
  std::string usable;
  if (s.is_rank0() && TokenFile::open(path)) usable = "usable";
  if (gather_texts(*s.collective, usable, "token file").front().empty()) {
    write_token_file(s, disk, board, path, options, *makers.texts);
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

// As the task reads it.
Result<DataFiles> find_data_of_task(const common::TrainConfig& config, const std::string& pattern) {
  if (is_preference(config.task)) return find_data(pattern, common::DataConfig::Format::kMessages);
  return is_conversational(config.task) ? find_conversations(pattern, config.data)
                                        : find_data(pattern, config.data.format);
}

OpenedSource open_pattern(RankState& s, Disk& disk, StatusBoard& board, const std::string& pattern,
                          const DataName& name) {
  const common::DataConfig& config = s.config().data;
  const DataFiles data =
      agree_on_data(s, name.of(find_data_of_task(s.config(), pattern)), "finding the data");
  require_same(s, "kind " + std::to_string(static_cast<int>(data.kind)), pattern);
  agree_on(*s.collective, name.of(check_loss(config, data.kind, pattern)), ExitCode::kInvalidConfig,
           "choosing what is learned");
  const RowMakers makers = agree_on_row_makers(s, disk, data, name.in_log);
  const bool is_mapped =  // files of bytes are their own tokens
      data.kind == SourceKind::kText &&
      s.config().tokenizer.type == common::TokenizerConfig::Type::kBytes;
  std::string token_file;
  if (!is_mapped && data.kind != SourceKind::kTokenFiles) {
    token_file = token_file_for(s, disk, board, data, makers);
  }
  std::unique_ptr<TokenSource> source = agree_on_data(
      s,
      is_mapped
          ? to_pointer(Corpus::open(data.paths.files))
          : to_pointer(TokenFiles::open(token_file.empty() ? data.paths.files
                                                           : std::vector<std::string>{token_file})),
      "opening the data");
  require_same(s, source->fingerprint(), pattern);
  agree_on_data(s, check_vocabulary(s, *source, pattern), "opening the data");
  return {.name = name, .source = std::move(source), .paths = data.paths, .token_file = token_file};
}

// Removes token files of other data and what a crash left: the output keeps what it needs.
void remove_other_token_files(const RankState& s, Disk& disk, const std::set<std::string>& kept) {
  std::error_code error;
  std::vector<std::string> others;
  for (std::filesystem::directory_iterator entry(tokens_folder(s.env.output), error);
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

}  // namespace

Result<std::chrono::system_clock::time_point> template_time(Disk& disk, const std::string& folder) {
  using std::chrono::seconds;
  using std::chrono::system_clock;
  const Result<std::string> text = common::read_text_file(folder + "/" + kTemplateTime);
  if (text) {
    int64_t told = 0;
    const auto [end, wrong] = std::from_chars(text->data(), text->data() + text->size(), told);
    if (wrong == std::errc() && *end == '\n') return system_clock::time_point(seconds(told));
    return Error{ErrorCode::kDataLoss, folder + "/" + kTemplateTime + " holds no time",
                 "remove it: templates are told another one then"};
  }
  if (text.error().code != ErrorCode::kNotFound) return text.error();
  const auto now = std::chrono::duration_cast<seconds>(system_clock::now().time_since_epoch());
  RETURN_IF_ERROR(disk.make_folder(folder));
  RETURN_IF_ERROR(replace_file(disk, folder, kTemplateTime, std::to_string(now.count()) + "\n"));
  return system_clock::time_point(now);
}

void open_data(RankState& s, Disk& disk, StatusBoard& board) {
  const common::DataConfig data = s.config().data;
  std::vector<OpenedSource> sources;
  sources.reserve(data.sources.size());
  for (std::size_t i = 0; i < data.sources.size(); ++i) {
    sources.push_back(open_pattern(s, disk, board, data.sources[i].path, name_of_source(data, i)));
  }
  open_training_samples(s, sources);
  std::set<std::string> kept = {tokens_folder(s.env.output) + "/" + kTemplateTime,
                                tokens_folder(s.env.output) + "/" + reference_file("train"),
                                tokens_folder(s.env.output) + "/" + reference_file("validation")};
  for (const OpenedSource& source : sources) kept.insert(source.token_file);
  if (!data.validation.empty()) {
    OpenedSource validation =
        open_pattern(s, disk, board, data.validation, {.in_log = "validation"});
    s.validation.emplace(open_samples(s, validation));
    kept.insert(validation.token_file);
  }
  if (s.is_rank0()) remove_other_token_files(s, disk, kept);
  resolve_epochs(s);
}

}  // namespace lockstep::runtime

#include "runtime/data/tokenize.h"

#include <algorithm>
#include <optional>
#include <string_view>
#include <utility>

#include "runtime/data/document_reader.h"
#include "runtime/data/json_documents.h"
#include "runtime/data/token_file_writer.h"

namespace lockstep::runtime {
namespace {

using common::Error;
using common::ErrorCode;
using common::Result;
using Clock = std::chrono::steady_clock;

}  // namespace

struct Tokenization::State {
  Disk& disk;
  std::string path;
  TokenizeOptions options;
  const Tokenizer& tokenizer;

  std::optional<TokenFileWriter> writer;
  std::optional<bool> rows_have_labels;  // as the first row has them
  std::size_t file_index = 0;            // in options.files
  std::optional<DocumentReader> documents;
  bool is_first_text = true;
  TokenFileHeader header;
  TokenizeCounts counts;

  Result<void> open_writer(const TokenFileOptions& to) {
    ASSIGN_OR_RETURN(TokenFileWriter opened, TokenFileWriter::create(disk, path, to));
    writer.emplace(std::move(opened));
    return {};
  }

  Result<void> add_text(std::string_view text, const LinePlace& place) {
    if (text.empty()) {
      ++counts.empty_documents;
      return {};
    }
    if (!writer) {
      RETURN_IF_ERROR(open_writer({.token_bytes = token_bytes_for(tokenizer.num_token_ids()),
                                   .separator = tokenizer.separator(),
                                   .has_labels = false,
                                   .tokenizer = tokenizer.name()}));
    }
    const int32_t separator = tokenizer.separator();
    if (separator >= 0 && !is_first_text) {
      RETURN_IF_ERROR(writer->add_tokens(std::span(&separator, 1), {}));
    }
    is_first_text = false;
    Result<void> added;
    int64_t num_tokens = 0;
    const Result<void> encoded = tokenizer.encode(text, [&](std::span<const int32_t> tokens) {
      if (added) added = writer->add_tokens(tokens, {});
      num_tokens += static_cast<int64_t>(tokens.size());
    });
    if (!encoded) return error_at(place, encoded.error());
    if (!added) return added;
    if (num_tokens == 0) ++counts.empty_documents;
    return writer->end_document();
  }

  Result<void> add_row(const TokenRow& row, const LinePlace& place) {
    if (row.input_ids.empty()) {
      ++counts.empty_documents;
      return {};
    }
    const bool has_labels = !row.labels.empty();
    if (!rows_have_labels) {
      rows_have_labels = has_labels;
      RETURN_IF_ERROR(open_writer({.token_bytes = token_bytes_for(options.num_token_ids),
                                   .separator = -1,
                                   .has_labels = has_labels,
                                   .tokenizer = ""}));
    }
    if (has_labels != *rows_have_labels) {
      return Error{ErrorCode::kInvalidArgument,
                   std::string(place.file) + ":" + std::to_string(place.line) + ": has " +
                       (has_labels ? "labels, but the rows before have none"
                                   : "no labels, but the rows before have"),
                   "give all rows labels, or none"};
    }
    RETURN_IF_ERROR(writer->add_tokens(row.input_ids, row.labels));
    return writer->end_document();
  }

  Result<void> add_conversation(std::string_view text, const LinePlace& place) {
    const ConversationTokenizer& conversations = *options.conversations;
    if (!conversations.has_pairs()) {
      ASSIGN_OR_RETURN(const TokenRow row, conversations.encode(text, place));
      return add_learned(std::span(&row, 1));
    }
    ASSIGN_OR_RETURN(const auto pair, conversations.encode_pair(text, place));
    return add_learned(pair);
  }

  // The rows of one conversation: all of them, or none if one teaches nothing.
  Result<void> add_learned(std::span<const TokenRow> rows) {
    const ConversationTokenizer& conversations = *options.conversations;
    if (!std::all_of(rows.begin(), rows.end(),
                     [&](const TokenRow& row) { return conversations.teaches(row); })) {
      ++counts.unlearned_rows;
      return {};
    }
    if (!writer) {
      RETURN_IF_ERROR(
          open_writer({.token_bytes = token_bytes_for(conversations.tokenizer().num_ids()),
                       .separator = -1,
                       .has_labels = !conversations.learns_all(),
                       .tokenizer = conversations.name()}));
    }
    for (const TokenRow& row : rows) {
      RETURN_IF_ERROR(writer->add_tokens(row.input_ids, row.labels));
      RETURN_IF_ERROR(writer->end_document());
    }
    return {};
  }

  Result<void> add_row_text(std::string_view text, const LinePlace& place) {
    if (is_blank(text)) {
      ++counts.empty_documents;
      return {};
    }
    if (options.kind == SourceKind::kRowTokens) {
      ASSIGN_OR_RETURN(const TokenRow row, parse_token_line(text, options.num_token_ids, place));
      return add_row(row, place);
    }
    if (options.kind == SourceKind::kConversations) return add_conversation(text, place);
    ASSIGN_OR_RETURN(const std::string document, parse_text_line(text, options.text_column, place));
    return add_text(document, place);
  }

  Result<void> add_document() {
    const std::string_view text = documents->text();
    const LinePlace place = documents->place();
    if (options.kind == SourceKind::kText) return add_text(text, place);
    ++counts.rows;
    return add_row_text(text, place);
  }

  Error nothing() const {
    if (counts.unlearned_rows == 0) {
      return {ErrorCode::kInvalidArgument, "empty corpus: there is no document with a token", ""};
    }
    if (options.conversations->has_pairs()) {
      return {ErrorCode::kInvalidArgument,
              "none of the " + std::to_string(counts.unlearned_rows) +
                  " pairs has a token of both answers within a sample",
              "raise train.data.sequenceLength: prompt and answer share it"};
    }
    return {ErrorCode::kInvalidArgument,
            "none of the " + std::to_string(counts.unlearned_rows) +
                " conversations has a token to learn: no assistant speaks within a sample",
            "look at the roles of the messages and at train.data.sequenceLength, or learn all "
            "tokens with train.data.loss: all"};
  }

  // Goes to the next document. False if there is none.
  Result<bool> find_document() {
    const auto unit = options.kind == SourceKind::kText ? DocumentReader::Unit::kFile
                                                        : DocumentReader::Unit::kRow;
    while (true) {
      if (documents) {
        ASSIGN_OR_RETURN(const bool found, documents->next());
        if (found) return true;
        documents.reset();
        ++file_index;
      }
      if (file_index == options.files.size()) return false;
      ASSIGN_OR_RETURN(DocumentReader opened,
                       DocumentReader::open(options.files[file_index], unit));
      documents.emplace(std::move(opened));
    }
  }
};

Tokenization::Tokenization(Disk& disk, std::string path, TokenizeOptions options,
                           const Tokenizer& tokenizer)
    : state_(std::make_unique<State>(State{.disk = disk,
                                           .path = std::move(path),
                                           .options = std::move(options),
                                           .tokenizer = tokenizer})) {}

Tokenization::~Tokenization() = default;

Result<bool> Tokenization::advance(std::chrono::milliseconds slice) {
  State& s = *state_;
  const Clock::time_point stop = Clock::now() + slice;
  do {
    ASSIGN_OR_RETURN(const bool found, s.find_document());
    if (!found) {
      if (!s.writer) {
        return s.nothing();
      }
      ASSIGN_OR_RETURN(s.header, s.writer->finish());
      return true;
    }
    RETURN_IF_ERROR(s.add_document());
  } while (Clock::now() < stop);
  return false;
}

const TokenFileHeader& Tokenization::header() const {
  return state_->header;
}

const TokenizeCounts& Tokenization::counts() const {
  return state_->counts;
}

}  // namespace lockstep::runtime

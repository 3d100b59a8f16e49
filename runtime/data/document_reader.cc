#include "runtime/data/document_reader.h"

#include <algorithm>
#include <array>
#include <optional>
#include <span>
#include <utility>

#include "runtime/text/rust/lockstep_text.h"
#include "runtime/text/rust_text.h"

namespace lockstep::runtime {
namespace {

using common::Result;

constexpr std::array<std::string_view, 2> kLines = {".jsonl", ".ndjson"};

bool ends_with_one_of(std::string_view path, std::span<const std::string_view> ends) {
  return std::any_of(ends.begin(), ends.end(),
                     [path](std::string_view end) { return path.ends_with(end); });
}

bool begins_a_list(std::string_view text) {
  const std::size_t first = text.find_first_not_of(" \t\r\n");
  return first != std::string_view::npos && text[first] == '[';
}

// Nothing: JSON lines.
std::optional<LockstepRowFormat> format_of(std::string_view path, std::string_view text) {
  if (path.ends_with(kParquetExtension)) return kLockstepRowsParquet;
  if (path.ends_with(".csv")) return kLockstepRowsCsv;
  if (path.ends_with(".tsv")) return kLockstepRowsTsv;
  if (path.ends_with(".json") && begins_a_list(text)) return kLockstepRowsJsonList;
  return std::nullopt;
}

std::string_view text_of(const common::MappedFile& file) {
  return {reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size()};
}

}  // namespace

bool is_surely_row_file(std::string_view path) {
  return ends_with_one_of(path, kLines) || path.ends_with(kParquetExtension);
}

bool is_row_file(std::string_view path) {
  constexpr std::array<std::string_view, 3> kOthers = {".json", ".csv", ".tsv"};
  return is_surely_row_file(path) || ends_with_one_of(path, kOthers);
}

bool is_blank(std::string_view line) {
  return line.find_first_not_of(" \t\r") == std::string_view::npos;
}

void DocumentReader::Close::operator()(LockstepRows* rows) const {
  lockstep_rows_close(rows);
}

DocumentReader::DocumentReader(std::string path, Unit unit, common::MappedFile file)
    : path_(std::move(path)), unit_(unit), file_(std::move(file)) {}

Result<DocumentReader> DocumentReader::open(const std::string& path, Unit unit) {
  ASSIGN_OR_RETURN(common::MappedFile file, common::MappedFile::open(path));
  DocumentReader reader(path, unit, std::move(file));
  const std::string_view text = text_of(reader.file_);
  const std::optional<LockstepRowFormat> format = format_of(path, text);
  if (unit == Unit::kFile || text.empty() || !format) return reader;
  LockstepRows* rows = nullptr;
  LockstepBytes error{};
  if (!lockstep_rows_open(rust_bytes(text), text.size(), *format, &rows, &error)) {
    return rust_error(path, error);
  }
  reader.rows_.reset(rows);
  return reader;
}

Result<bool> DocumentReader::next() {
  if (!rows_) return next_line();
  LockstepRow row{};
  LockstepBytes error{};
  if (!lockstep_rows_next(rows_.get(), &row, &error)) return rust_error(path_, error);
  row_ = take_rust_text(row.text);
  line_ = static_cast<int64_t>(row.line);
  return line_ > 0;
}

// The next line, or the whole file.
bool DocumentReader::next_line() {
  const std::string_view text = text_of(file_);
  if (offset_ == text.size()) return false;
  begin_ = offset_;
  end_ = text.size();
  if (unit_ == Unit::kRow) {
    end_ = std::min(text.find('\n', begin_), text.size());
    ++line_;
  }
  offset_ = std::min(end_ + 1, text.size());
  return true;
}

std::string_view DocumentReader::text() const {
  return rows_ ? std::string_view(row_) : text_of(file_).substr(begin_, end_ - begin_);
}

Result<FirstRow> first_row(const std::string& path) {
  ASSIGN_OR_RETURN(DocumentReader rows, DocumentReader::open(path, DocumentReader::Unit::kRow));
  while (true) {
    ASSIGN_OR_RETURN(const bool has_row, rows.next());
    if (!has_row) return FirstRow();
    if (is_blank(rows.text())) continue;
    return FirstRow{.text = std::string(rows.text()), .line = rows.place().line};
  }
}

}  // namespace lockstep::runtime

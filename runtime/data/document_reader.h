// The documents of one data file, one after another, as they lie in it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "runtime/common/mapped_file.h"
#include "runtime/common/result.h"
#include "runtime/data/json_documents.h"

struct LockstepRows;

namespace lockstep::runtime {

inline constexpr std::string_view kParquetExtension = ".parquet";  // the one with bytes 0 in it

// Whether a file of this name holds rows: JSON lines (*.jsonl, *.ndjson), *.json, *.csv, *.tsv,
// *.parquet.
bool is_row_file(std::string_view path);

// Whether its name leaves no doubt: what is in a *.json, *.csv or *.tsv may be meant as a text.
bool is_surely_row_file(std::string_view path);

// Note [Rows]
// A row is a JSON object, whatever the file: a line of JSON lines, an item of the list that a
// *.json holds, a record of a *.csv or *.tsv with its header's names and values that are all
// strings, a row of a *.parquet (see to_json in text/rust/src/rows.rs). A *.json that begins
// otherwise than a list holds JSON lines, as do files of all other names.
class DocumentReader {
 public:
  enum class Unit { kFile, kRow };

  // Maps the file; an empty one has no documents. Errors of the file, and kInvalidArgument, naming
  // it, if it is not what its name says.
  static common::Result<DocumentReader> open(const std::string& path, Unit unit);

  // Goes to the next document, the first at the first call. False behind the last; not to be called
  // again after that or an error. kInvalidArgument names the file, and the row in its own words.
  common::Result<bool> next();

  // Of the document at hand, as bytes, until next() or the end of the object. Memory is that of one
  // row, of a *.json 16 bytes for each, and of a *.parquet that of its pages. Opening a list of a
  // *.json reads all of it.
  std::string_view text() const;
  // Its line from 1, of Parquet the row's number; line 0: it is the file. `file` is the reader's.
  LinePlace place() const { return {.file = path_, .line = line_}; }

 private:
  struct Close {
    void operator()(LockstepRows* rows) const;
  };
  DocumentReader(std::string path, Unit unit, common::MappedFile file);
  bool next_line();

  std::string path_;
  Unit unit_;
  common::MappedFile file_;  // outlives rows_
  std::unique_ptr<LockstepRows, Close> rows_;
  std::string row_;                  // of rows_
  std::size_t begin_ = 0, end_ = 0;  // of a file or line: where the document lies
  std::size_t offset_ = 0;           // where the next one begins
  int64_t line_ = 0;
};

bool is_blank(std::string_view line);

struct FirstRow {
  std::string text;  // empty: there is none
  int64_t line = 0;
};

// The first row of the file `path` that is not blank. Errors as DocumentReader.
common::Result<FirstRow> first_row(const std::string& path);

}  // namespace lockstep::runtime

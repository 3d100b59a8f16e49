// From opened data to the samples that a rank trains on and measures.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "runtime/data/path_expansion.h"
#include "runtime/data/samples.h"
#include "runtime/data/token_source.h"
#include "runtime/train/exchange.h"
#include "runtime/train/rank_state.h"

namespace lockstep::runtime {

// What data is called.
struct DataName {
  std::string in_log;       // "train", "sources[1]", "validation"
  std::string in_errors{};  // the field, where the path alone does not tell which one it is

  // `result`, its error beginning with the field.
  template <typename T>
  common::Result<T> of(common::Result<T> result) const {
    if (result || in_errors.empty()) return result;
    const common::Error& error = result.error();
    return common::Error{error.code, in_errors + ": " + error.message, error.hint};
  }
};

// What a path of the configuration became.
struct OpenedSource {
  DataName name;
  std::unique_ptr<TokenSource> source;
  ExpandedPaths paths;
  std::string token_file;  // of the output, in which the source lies; empty: in none
};

// Of source `index` of `data`.
DataName name_of_source(const common::DataConfig& data, std::size_t index);

common::ExitCode exit_code_of_data(const common::Error& error);

// agree_on() with the code of data that is missing or wrong.
template <typename T>
T agree_on_data(RankState& s, common::Result<T> mine, std::string_view what) {
  const common::ExitCode code =
      mine ? common::ExitCode::kSucceeded : exit_code_of_data(mine.error());
  return agree_on(*s.collective, std::move(mine), code, what);
}

// The samples of `opened`, whose source it takes; rank 0 logs what they are.
// Every rank must call these. They throw as open_data().
Samples open_samples(RankState& s, OpenedSource& opened);

// Fills s.samples with those of `sources`, which it takes, mixed by their weights. Under
// validationFraction fills s.divided and s.validation too.
void open_training_samples(RankState& s, std::vector<OpenedSource>& sources);

// Turns epochs into steps, now that the number of samples is known, and logs how much of each
// source they are if there are several.
void resolve_epochs(RankState& s);

}  // namespace lockstep::runtime

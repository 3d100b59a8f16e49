#include <cstddef>
#include <string>

#include "runtime/common/document.h"
#include "runtime/common/mixture_shares.h"
#include "runtime/common/train_relations.h"

namespace lockstep::common {
namespace {

using nlohmann::json;

// The sum of all weights; 0 if one of them is none.
double sum_of_weights(const json& sources) {
  double sum = 0;
  for (const json& source : sources) {
    if (!source.is_object()) return 0;
    const json weight = source.value("weight", json(1));
    if (!weight.is_number() || weight.get<double>() <= 0) return 0;
    sum += weight.get<double>();
  }
  return sum;
}

void check_weights(Relations& out, const json& sources) {
  const double sum = sum_of_weights(sources);
  for (std::size_t i = 0; sum > 0 && i < sources.size(); ++i) {
    const json weight = sources[i].value("weight", json(1));
    if (weight.get<double>() * static_cast<double>(kLeastPartOfWeights) >= sum) continue;
    out.report(item_path(".data.sources", i) + ".weight",
               "must be at least a ten-thousandth of the sum of all weights, " + json(sum).dump() +
                   ", found " + weight.dump(),
               "raise it, or remove the source");
  }
}

}  // namespace

void check_sources(Relations& out) {
  const json* data = out.find("data");
  if (data == nullptr || !data->is_object()) return;
  const json* train = out.find("data/train");
  const json* sources = out.find("data/sources");
  if (train == nullptr && sources == nullptr) {
    out.report(".data.train", "is required", "or give data.sources, a list of {path, weight}");
  } else if (train != nullptr && sources != nullptr) {
    out.report(".data.sources", "and train exclude each other", "give one of them");
  } else if (sources != nullptr && sources->is_array()) {
    check_weights(out, *sources);
  }
}

}  // namespace lockstep::common

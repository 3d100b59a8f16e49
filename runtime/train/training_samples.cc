#include "runtime/train/training_samples.h"

#include "runtime/common/document.h"
#include "runtime/common/mixture_shares.h"
#include "runtime/data/held_out.h"

namespace lockstep::runtime {
namespace {

using common::Error;
using common::ErrorCode;
using common::ExitCode;
using common::Result;

Result<Samples> to_samples(const RankState& s, std::unique_ptr<TokenSource> source) {
  return Samples::create(std::move(source), {.sequence_length = s.config().data.sequence_length,
                                             .packing = s.config().data.packing,
                                             .rows_per_sample = rows_per_sample(s.config())});
}

void log_data(const RankState& s, const std::string& name, const ExpandedPaths& paths,
              const Samples& samples) {
  if (!s.is_rank0()) return;
  const Samples::Truncation truncation = samples.truncation();
  s.log.info("data", {{"data", name},
                      {"files", static_cast<int64_t>(paths.files.size())},
                      {"binary_skipped", paths.num_binary_skipped},
                      {"hidden_skipped", paths.num_hidden_skipped},
                      {"empty_skipped", paths.num_empty_skipped},
                      {"documents", samples.num_documents()},
                      {"tokens", samples.num_tokens()},
                      {"samples", samples.num_samples()},
                      {"documents_truncated", truncation.documents},
                      {"tokens_truncated", truncation.tokens}});
}

// The samples of `share` of `divided`, which was made of `opened`.
Samples open_share(RankState& s, const DividedSource& divided, Share share,
                   const OpenedSource& opened) {
  const bool is_held_out = share == Share::kHeldOut;
  Result<Samples> samples = to_samples(s, divided.open(share));
  if (!samples) {
    samples = Error{samples.error().code,
                    std::string("train.data.validationFraction: ") +
                        (is_held_out ? "of what is held out " : "of what is left to train on ") +
                        samples.error().message,
                    std::string(is_held_out ? "raise" : "lower") +
                        " it, name train.data.validation in its place, or lower "
                        "train.data.sequenceLength"};
  }
  Samples mine = agree_on_data(s, opened.name.of(std::move(samples)), "dividing the data");
  log_data(s, is_held_out ? "validation" : opened.name.in_log, opened.paths, mine);
  return mine;
}

// Both shares of a source: see Note [Held-out documents].
struct Shares {
  Samples training, held_out;
};

Shares open_divided(RankState& s, OpenedSource& opened) {
  const common::TrainConfig& config = s.config();
  s.divided.push_back(
      agree_on_data(s,
                    opened.name.of(DividedSource::create(
                        std::move(opened.source),
                        {.fraction = config.data.validation_fraction,
                         .seed = config.seed,
                         .documents_per_unit = rows_per_sample(config),
                         .unit_name = is_preference(config.task) ? "pairs" : "documents"})),
                    "dividing the data"));
  const DividedSource& divided = *s.divided.back();
  if (s.is_rank0()) {
    s.log.info("held out", {{"fraction", config.data.validation_fraction},
                            {"held_out", divided.num_held_out()},
                            {"of", divided.num_units()}});
  }
  Samples training = open_share(s, divided, Share::kTraining, opened);
  return {std::move(training), open_share(s, divided, Share::kHeldOut, opened)};
}

// How many steps train for, and how much of each source that is.
void log_mixture(const RankState& s) {
  const SampleSource& samples = *s.samples;
  if (!s.is_rank0() || samples.mixture().num_sources() == 1) return;
  const double num_used =
      static_cast<double>(s.config().steps * s.config().batch.global_batch_size);
  for (std::size_t i = 0; i < samples.mixture().num_sources(); ++i) {
    const common::DataSource& source = s.config().data.sources[i];
    const double part = samples.mixture().part_of(i);
    const int64_t num_samples = samples.samples().num_samples_of(i);
    s.log.info("source", {{"path", source.path},
                          {"weight", source.weight},
                          {"share", part},
                          {"samples", num_samples},
                          {"passes", num_used * part / static_cast<double>(num_samples)}});
  }
}

}  // namespace

DataName name_of_source(const common::DataConfig& data, std::size_t index) {
  if (data.sources.size() == 1) return {.in_log = "train"};
  return {.in_log = common::item_path("sources", index),
          .in_errors = "train." + data.sources[index].field};
}

ExitCode exit_code_of_data(const Error& error) {
  const bool wrong_data =
      error.code == ErrorCode::kInvalidArgument || error.code == ErrorCode::kDataLoss;
  return wrong_data ? ExitCode::kInvalidData : ExitCode::kInputNotFound;
}

Samples open_samples(RankState& s, OpenedSource& opened) {
  Samples samples =
      agree_on_data(s, opened.name.of(to_samples(s, std::move(opened.source))), "opening the data");
  log_data(s, opened.name.in_log, opened.paths, samples);
  return samples;
}

void open_training_samples(RankState& s, std::vector<OpenedSource>& sources) {
  const common::TrainConfig& config = s.config();
  std::vector<Samples> training, held_out;
  std::vector<double> weights;
  for (std::size_t i = 0; i < sources.size(); ++i) {
    weights.push_back(config.data.sources[i].weight);
    if (config.data.validation_fraction > 0) {
      Shares shares = open_divided(s, sources[i]);
      training.push_back(std::move(shares.training));
      held_out.push_back(std::move(shares.held_out));
    } else {
      training.push_back(open_samples(s, sources[i]));
    }
  }
  if (!held_out.empty()) s.validation.emplace(Samples::join(std::move(held_out)));
  s.samples.emplace(
      agree_on_data(s,
                    SampleSource::create(Samples::join(std::move(training)),
                                         {.global_batch_size = config.batch.global_batch_size,
                                          .micro_batch_size = config.batch.micro_batch_size,
                                          .shuffle = config.data.shuffle,
                                          .seed = config.seed,
                                          .shares = common::mixture_shares(weights)}),
                    "opening the data"));
}

void resolve_epochs(RankState& s) {
  const double epochs = s.config().epochs;
  if (epochs > 0) {
    const int64_t steps = s.samples->steps_in(epochs);
    Result<common::TrainConfig> resolved = s.job.train;
    if (steps < 1) {
      resolved = Error{ErrorCode::kInvalidArgument,
                       "train.epochs: they are less than one global batch of " +
                           std::to_string(s.config().batch.global_batch_size) + " samples, of " +
                           std::to_string(s.samples->samples_per_epoch()) + " in an epoch",
                       "raise epochs, or lower train.batch.globalBatchSize"};
    } else {
      resolved = common::with_steps(s.job.train_json_here(), steps);
    }
    s.job.train = agree_on(*s.collective, std::move(resolved), ExitCode::kInvalidConfig,
                           "counting the steps");
    if (s.is_rank0()) s.log.info("epochs", {{"epochs", epochs}, {"steps", steps}});
  }
  log_mixture(s);
}

}  // namespace lockstep::runtime
